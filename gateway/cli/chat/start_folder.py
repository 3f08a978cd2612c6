"""Start folder of `kore agent`: the surrounding project, or the workspace."""

import argparse
import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.text.visible import escape_invisible, escape_line
from gateway.cli import project_trust
from gateway.cli.folders import current_folder
from gateway.cli.output import tell
from gateway.cli.settings import settings_of
from gateway.config import Settings
from gateway.config.atomic_write import write_atomic
from gateway.config.json_files.document import read_object
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import origin_of

# Number of stored answers.
_MOST = 1_000


def start_folder(settings: Settings, home: DataDir) -> Path | None:
    """Return the root of the repository around the current folder, or the current folder.

    Returns None without a project: in the home folder, in `/`, in Kore's own folder, in the
    workspace, and in any parent of these.
    """
    if settings.agent.start_in == "workspace":
        return None
    here, person = current_folder().resolve(), Path.home().resolve()
    own = (home.root.resolve(), settings.agent.workspace.resolve())
    if any(here.is_relative_to(folder) for folder in own):
        return None
    # A repository around the home folder or Kore's folder, such as a dotfiles repository, does not
    # count as a project.
    free = [parent for parent in (here, *here.parents) if not _holds(parent, (person, *own))]
    top = next((path for path in free if (path / ".git").exists()), None)
    if top is None and free and not _is_everybodys(here):
        return here
    return top


def _holds(folder: Path, places: Sequence[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)


def _is_everybodys(folder: Path) -> bool:
    """Return whether the folder is world-writable, such as /tmp."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def with_trust(
    args: argparse.Namespace, settings: Settings, home: DataDir, folder: Path
) -> Settings:
    """Ask once whether to trust the folder and return the resulting settings.

    The question needs a terminal. Raises `ConfigError`.
    """
    if origin_of(settings).is_own(folder) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return settings
    if home.root.resolve().is_relative_to(folder) or str(folder) in _declined(home):
        return settings
    return _ask(args, settings, home, folder)


def _ask(args: argparse.Namespace, settings: Settings, home: DataDir, folder: Path) -> Settings:
    name = escape_line(str(folder))
    tell(t("New project: {folder}", folder=name))
    meaning = t(
        "If you trust it, I follow its AGENTS.md, and its files count like your own words. "
        "If not, I only read them, and ask before sending anything out."
    )
    tell(meaning)
    configuration = project_trust.show_configuration(folder, home.root)
    print(t("Trust this folder? [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in ("y", "yes", "是"):
        _decline(home, folder)
        return settings
    try:
        project_trust.grant(args, folder, home.root, configuration)
    except KoreError as exc:
        # A configuration that cannot be written must not stop the start: continue untrusted.
        tell(escape_invisible(str(exc)))
        return settings
    sandbox = {"security.sandbox": args.sandbox} if args.sandbox else None
    return settings_of(args, sandbox)


def _declined(home: DataDir) -> list[str]:
    try:
        folders = (read_object(home.asked_projects) or {}).get("declined", [])
    except ConfigError:
        return []
    return [str(folder) for folder in folders] if isinstance(folders, list) else []


def _decline(home: DataDir, folder: Path) -> None:
    home.ensure()
    folders = [*_declined(home), str(folder)][-_MOST:]
    write_atomic(home.asked_projects, json.dumps({"declined": folders}, indent=2) + "\n")
