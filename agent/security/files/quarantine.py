"""Quarantine for steering files created by a command that may have read untrusted text.

Kore cannot ask about such files beforehand: they are known only after the command, and a missing
file cannot be made read-only. So Kore renames them to a name that no program reads. This covers
only the top level of the workspace, where Kore looks for such files.
"""

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.security.files.folder_tree import open_up_folder
from agent.security.files.instruction_files import CONFIGURATIONS, PROMPT_FILES, PROMPT_FOLDERS
from agent.security.files.paths import normalize_filename

log = logging.getLogger(__name__)

SUFFIX = ".set-aside"
_MAX_NAMES = 1_000
_NAMES = PROMPT_FILES | PROMPT_FOLDERS | CONFIGURATIONS


class CreatedFiles:
    """Record of the steering files that a command creates.

    Call `begin` before the command and `end` after it. Several may be active at once.
    """

    def __init__(self, workspace: Path, further: frozenset[str]) -> None:
        """Set up the record; `further` are additional names to watch, normalized."""
        self.root = workspace
        self._names = _NAMES | further
        self._existing: set[str] = set()

    def begin(self) -> None:
        """Start recording. Raises `ToolError` for a workspace that cannot be listed."""
        try:
            self._existing = set(self._list_matching())
        except OSError as exc:
            raise ToolError(f"{self.root} cannot be listed: {exc.strerror}.") from exc
        with _lock:
            _open.append(self)

    def end(self, *, is_exposed: bool) -> Sequence[tuple[str, str]]:
        """Stop recording and set the new files aside if `is_exposed`.

        Returns the old and new names of the renamed files. `is_exposed` means that the command may
        have read untrusted text. A file that cannot be renamed keeps its name and its taint mark.
        May block.
        """
        with _lock:
            _open.remove(self)
        if not is_exposed:
            return []
        try:
            names = self._list_matching()
        except OSError as exc:
            log.warning("%s cannot be listed: %s", self.root, exc.strerror)
            return []
        moved = []
        for name in names:
            if name not in self._existing and (new := set_aside(self.root / name)) is not None:
                moved.append((name, new))
        return moved

    def grant(self, name: str) -> None:
        """Exempt a name that Kore itself created in the meantime."""
        self._existing.add(name)

    def _list_matching(self) -> Sequence[str]:
        """Return the watched names in the workspace. Raises `OSError` if it cannot be listed."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return ()
        except PermissionError:
            # A command removed the permission and could restore it later.
            open_up_folder(self.root)
            names = os.listdir(self.root)
        return sorted(name for name in names if normalize_filename(name) in self._names)


def set_aside(path: Path) -> str | None:
    """Rename a steering file so that no program reads it, and return the new name.

    Returns None if the file keeps its name. For a link, the link itself is renamed.
    """
    for number in range(1, _MAX_NAMES):
        new = path.with_name(f"{path.name}{SUFFIX}" + (f"-{number}" if number > 1 else ""))
        if os.path.lexists(new):
            continue
        try:
            try:
                os.rename(path, new)
            except PermissionError:
                open_up_folder(path.parent)
                os.rename(path, new)
        except FileNotFoundError:
            return None
        except OSError as exc:
            log.warning(
                "%s was written by a command that may have read untrusted text, and cannot be"
                " renamed (%s): check it before other programs read it",
                path,
                exc.strerror,
            )
            return None
        return new.name
    return None


_open: list[CreatedFiles] = []
_lock = threading.Lock()


def quarantine_created(path: Path) -> None:
    """Exempt `path` from quarantine before Kore writes it for a person who could be asked."""
    with _lock:
        for newcomers in _open:
            if path.is_relative_to(newcomers.root) and path != newcomers.root:
                name = path.relative_to(newcomers.root).parts[0]
                if not os.path.lexists(newcomers.root / name):
                    newcomers.grant(name)
