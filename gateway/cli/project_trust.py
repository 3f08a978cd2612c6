"""Trust in a folder: its configuration is stored, its files count as the owner's own."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.security.redaction import Redactor
from agent.security.taint.file_marks import unmark
from agent.text.visible import escape_line
from gateway.cli.output import tell
from gateway.cli.settings import settings_of, sources_of
from gateway.config import editing
from gateway.config.atomic_write import file_lock
from gateway.config.folder_trust import (
    content,
    digest,
    digest_of,
    is_trusted,
    project_files_in,
    remember,
)
from gateway.config.foreign.formats import is_foreign
from gateway.config.json_files.document import read_text
from gateway.config.json_files.jsonc import read
from gateway.config.references import read_secrets
from gateway.config.secret_keys import shortened
from gateway.core.question_view import visible_lines
from gateway.turns.agents.profiles import origin_of

_KEY = ("security", "trusted_folders")


def grant(
    args: argparse.Namespace, folder: Path, home: Path, digests: Mapping[Path, str]
) -> tuple[int, bool]:
    """Trust the folder and its files with these digests.

    Returns the number of removed marks for untrusted content and whether the folder is new in the
    configuration. Raises `KoreError`.
    """
    if unread := [path for path, one in digests.items() if not one]:
        raise KoreError(t("{path} cannot be read, or is too large", path=unread[0]))
    if digests:
        remember(digests, home)
    if changed_paths := [path for path, one in digests.items() if digest(path) != one]:
        raise KoreError(
            t("{path} changed in the meantime; this version is not trusted", path=changed_paths[0]),
            hint=t("review it again: kore trust"),
        )
    return unmark(folder), folder.is_dir() and _add(args, folder)


def show_configuration(folder: Path, home: Path, *, silent: bool = False) -> dict[Path, str]:
    """Show the folder's configuration files that are not trusted yet.

    Returns the digests of all its configuration files.
    """
    # Read them before showing them: a change made while the person reads is not trusted.
    read = {path: content(path) for path in project_files_in(folder)}
    new = [path for path in read if not is_trusted(path, home)]
    if new and not silent:
        clean = Redactor(read_secrets(home / "secrets.json").values()).clean
        for path in new:
            text = clean(_render(path, read[path]))
            print(f"{escape_line(str(path))}:\n{text}\n", file=sys.stderr)
        if sys.stdin.isatty():
            tell(t("These files can then set models, URLs, hooks and servers to start."))
    return {path: "" if raw is None else digest_of(raw) for path, raw in read.items()}


def _add(args: argparse.Namespace, folder: Path) -> bool:
    """Add the folder to the configuration; return False if its files are already trusted."""
    if origin_of(settings_of(args)).is_own(folder):
        return False
    change_folders(args, lambda folders: [*folders, str(folder)])
    if not origin_of(settings_of(args)).is_own(folder):
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
    """Return the content of a file as read before, in the form of an approval question."""
    try:
        content = shortened(read(read_text(path, raw) or "").value)
    except ValueError as exc:
        raise KoreError(f"{path}: {exc}") from None
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return "\n".join(line.text for line in visible_lines(text))
