"""Choice of the folder that a person works in, and trust in folders."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.security.redaction import Redactor
from agent.security.taint.file_marks import unmark
from agent.text.visible import escape_invisible, escape_line
from gateway.access.added_folders import named_folder
from gateway.cli.folders import current_folder, data_dir_of
from gateway.cli.output import tell
from gateway.cli.settings import settings_of, sources_of
from gateway.config import Settings, editing
from gateway.config.atomic_write import file_lock, write_atomic
from gateway.config.folder_trust import (
    content,
    digest,
    digest_of,
    is_trusted,
    project_files_in,
    remember,
)
from gateway.config.foreign.formats import is_foreign
from gateway.config.json_files.document import read_object, read_text
from gateway.config.json_files.jsonc import read
from gateway.config.references import read_secrets
from gateway.config.secret_keys import shortened
from gateway.ops.working_place import WorkingPlace, find_place, limit_to_trust
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import origin_of, worktrees_of

_KEY = ("security", "trusted_folders")
# Number of stored answers.
_MAX_DECLINED_FOLDERS = 1_000


def trust_folder(
    args: argparse.Namespace, folder: Path, home: Path, digests: Mapping[Path, str]
) -> tuple[int, bool]:
    """Trust the folder and its files with these digests.

    Returns the number of removed marks for untrusted content and whether the folder is new in the
    configuration. Raises `KoreError`.
    """
    if unread := [path for path, value in digests.items() if not value]:
        raise KoreError(t("{path} cannot be read, or is too large", path=unread[0]))
    if digests:
        remember(digests, home)
    if changed_paths := [path for path, expected in digests.items() if digest(path) != expected]:
        raise KoreError(
            t("{path} changed in the meantime; this version is not trusted", path=changed_paths[0]),
            hint=t("review it again: kore trust"),
        )
    return unmark(folder), folder.is_dir() and _add_to_configuration(args, folder)


def show_configuration(folder: Path, home: Path, *, silent: bool = False) -> dict[Path, str]:
    """Show the folder's configuration files that are not trusted yet.

    Returns the digests of all its configuration files.
    """
    # Read them before showing them, so that a change made while the person reads is not trusted.
    contents = {path: content(path) for path in project_files_in(folder)}
    untrusted = [path for path in contents if not is_trusted(path, home)]
    if untrusted and not silent:
        clean = Redactor(read_secrets(home / "secrets.json").values()).clean
        for path in untrusted:
            text = clean(_render(path, contents[path]))
            print(f"{escape_line(str(path))}:\n{text}\n", file=sys.stderr)
        if sys.stdin.isatty():
            tell(t("These files can then set models, URLs, hooks and servers to start."))
    return {path: "" if raw is None else digest_of(raw) for path, raw in contents.items()}


def _add_to_configuration(args: argparse.Namespace, folder: Path) -> bool:
    """Add the folder to the configuration; return False if its files are already trusted."""
    home = data_dir_of(args)
    if origin_of(settings_of(args), home).is_own(folder):
        return False
    change_folders(args, lambda folders: [*folders, str(folder)])
    if not origin_of(settings_of(args), home).is_own(folder):
        raise KoreError(
            t("security.trusted_folders is also set elsewhere, which takes precedence"),
            hint=t("`kore config list` shows where"),
        )
    return True


def change_folders(args: argparse.Namespace, update: Callable[[Sequence[str]], list[str]]) -> bool:
    """Update the list of trusted folders; return False without a change."""
    sources = sources_of(args)
    file = sources.own_file
    if is_foreign(file):
        raise KoreError(
            t("{path} belongs to another program and cannot store this", path=file),
            hint=t("create Kore's own configuration with `kore init`"),
        )
    with file_lock(file):
        configured = editing.inside(editing.content_of(file, editing.text_of(file)), _KEY)
        folders = [str(item) for item in configured] if isinstance(configured, list) else []
        updated = update(folders)
        if updated == folders:
            return False
        editing.setting(sources, file, _KEY, updated).write(sources)
    return True


def _render(path: Path, raw: bytes | None) -> str:
    """Return the content of a file that was already read, in the form of an approval question."""
    # Imported here, because it loads the tools, and most runs show no files.
    from gateway.core.question_view import visible_lines

    try:
        content = shortened(read(read_text(path, raw) or "").value)
    except ValueError as exc:
        raise KoreError(f"{path}: {exc}") from None
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return "\n".join(line.text for line in visible_lines(text))


def choose_place(
    args: argparse.Namespace,
    settings: Settings,
    home: DataDir,
    *,
    may_ask: bool = True,
    trusts: bool = False,
) -> tuple[WorkingPlace | None, Settings]:
    """Return the place of `--cwd` or of the current folder, and the settings after a question.

    With `--worktree`, it is in that worktree. The place is None without a project. In a terminal, a
    person is asked once whether to trust it; if this run `trusts` the place, no question is asked
    and nothing is stored. Raises `ConfigError` and `WorktreeError`.
    """
    is_chosen = args.cwd is not None
    is_here = is_chosen or args.worktree is not None or settings.agent.start_in != "workspace"
    place = None
    if is_here:
        folder = existing_folder(args.cwd) if is_chosen else current_folder().resolve()
        place = find_place(settings, home, folder, is_chosen=is_chosen)
    if place is None and trusts:
        raise ConfigError(t("--trust: no project here"), hint=t("name its folder with --cwd DIR"))
    if place is None:
        if args.worktree is not None:
            raise ConfigError(
                t("--worktree {name}: {folder} is not a project", name=args.worktree, folder=folder)
            )
        return None, settings
    if args.worktree is not None:
        # This comes before the question about trust.
        worktrees_of(settings, home).check(place.workspace, args.worktree)
    if (main := origin_of(settings, home).adopt(place.workspace)) is not None:
        tell(t("Trusted: this is a worktree of {folder}.", folder=escape_line(str(main))))
    is_wider = place.workspace != place.folder
    if trusts:
        settings = _with_trust_for_this_run(args, settings, home, place.workspace)
    elif may_ask and (is_wider or not is_chosen):
        settings = with_trust(args, settings, home, place.workspace)
    place = limit_to_trust(place, settings, home, is_chosen=is_chosen)
    if args.worktree is not None:
        worktrees = worktrees_of(settings, home)
        worktree = worktrees.open(place.workspace, args.worktree)
        if remark := worktrees.remark(place.workspace, worktree.folder):
            tell(escape_line(remark))
        place = place.in_checkout(worktree.folder)
    return place, settings


def is_folder_chosen(args: argparse.Namespace) -> bool:
    """Return whether the person chose the folder, also for a session from another one."""
    return args.cwd is not None or args.worktree is not None


def existing_folder(path: Path) -> Path:
    """Return the real folder of `--cwd`. Raises `ConfigError`."""
    folder = current_folder() / path.expanduser()
    if not folder.is_dir():
        raise ConfigError(t("--cwd {folder}: no such folder", folder=path))
    return folder.resolve()


def added_dirs(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the real folders of `--add-dir`. Raises `ConfigError`."""
    try:
        folders = [named_folder(name, current_folder()) for name in args.add_dir or ()]
    except ConfigError as exc:
        raise ConfigError(f"--add-dir {exc}", hint=exc.hint) from exc
    return tuple(str(folder.path) for folder in folders)


def with_trust(
    args: argparse.Namespace, settings: Settings, home: DataDir, folder: Path
) -> Settings:
    """Ask once whether to trust the folder and return the resulting settings.

    The question needs a terminal. Raises `ConfigError`.
    """
    if origin_of(settings, home).is_own(folder) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return settings
    if home.root.resolve().is_relative_to(folder) or str(folder) in _declined(home):
        return settings
    return _ask(args, settings, home, folder)


def _with_trust_for_this_run(
    args: argparse.Namespace, settings: Settings, home: DataDir, folder: Path
) -> Settings:
    """Return the settings of this run with the folder trusted. Raises `ConfigError`.

    Its configuration is accepted as well, where it would be read. Marks of files remain.
    """
    if home.root.resolve().is_relative_to(folder):
        raise ConfigError(
            t(
                "{folder} contains Kore's own folder and cannot be trusted as a whole",
                folder=escape_line(str(folder)),
            ),
            hint=t("choose a project inside it: --cwd DIR"),
        )
    overrides = {"security.sandbox": args.sandbox} if args.sandbox else None
    return settings_of(args, overrides, trusted_folder=folder)


def _ask(args: argparse.Namespace, settings: Settings, home: DataDir, folder: Path) -> Settings:
    name = escape_line(str(folder))
    tell(t("New project: {folder}", folder=name))
    explanation = t(
        "If you trust it, I follow its AGENTS.md, and its files count like your own words. "
        "If not, I only read them, and ask before sending anything out."
    )
    tell(explanation)
    configuration = show_configuration(folder, home.root)
    print(t("Trust this folder? [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in ("y", "yes", "是"):
        _decline(home, folder)
        return settings
    try:
        trust_folder(args, folder, home.root, configuration)
    except KoreError as exc:
        # A configuration that cannot be written must not stop the start: continue untrusted.
        tell(escape_invisible(str(exc)))
        return settings
    overrides = {"security.sandbox": args.sandbox} if args.sandbox else None
    return settings_of(args, overrides)


def _declined(home: DataDir) -> list[str]:
    try:
        folders = (read_object(home.asked_projects) or {}).get("declined", [])
    except ConfigError:
        return []
    return [str(folder) for folder in folders] if isinstance(folders, list) else []


def _decline(home: DataDir, folder: Path) -> None:
    home.ensure()
    folders = [*_declined(home), str(folder)][-_MAX_DECLINED_FOLDERS:]
    write_atomic(home.asked_projects, json.dumps({"declined": folders}, indent=2) + "\n")
