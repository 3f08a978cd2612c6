"""What steers later turns or other programs, made by a command that knows strangers' words.

It cannot be asked about before: what such a command makes is known afterwards only, and a name that
does not exist cannot be made read-only. So it gets a name that no program reads. Only what lies on
top of the workspace, where Kore looks for it.
"""

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.security.files.filenames import normalize_filename
from agent.security.files.folder_tree import open_up_folder
from agent.security.files.instruction_files import CONFIGURATIONS, PROMPT_FILES, PROMPT_FOLDERS

log = logging.getLogger(__name__)

SUFFIX = ".set-aside"
_MOST_NAMES = 1_000
_NAMES = PROMPT_FILES | PROMPT_FOLDERS | CONFIGURATIONS


class CreatedFiles:
    """`begin` before the command, `end` after it; more than one may run at once."""

    def __init__(self, workspace: Path, further: frozenset[str]) -> None:
        """`further`: names besides those that are always looked at, folded."""
        self.root = workspace
        self._names = _NAMES | further
        self._existing: set[str] = set()

    def begin(self) -> None:
        """Raises `ToolError` for a workspace that cannot be listed."""
        try:
            self._existing = set(self._list_matching())
        except OSError as exc:
            raise ToolError(f"{self.root} cannot be listed: {exc.strerror}.") from exc
        with _lock:
            _open.append(self)

    def end(self, *, is_exposed: bool) -> Sequence[tuple[str, str]]:
        """The old and new names of what has come since, if the command may know strangers' words.

        What cannot be renamed keeps its name, and its mark (`marks`). May block.
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
        """It was made by Kore itself meanwhile."""
        self._existing.add(name)

    def _list_matching(self) -> Sequence[str]:
        """Raises `OSError` for a folder that cannot be listed."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return ()
        except PermissionError:
            # A command took the right away, and could give it back.
            open_up_folder(self.root)
            names = os.listdir(self.root)
        return sorted(name for name in names if normalize_filename(name) in self._names)


def set_aside(path: Path) -> str | None:
    """Give what steers other programs a name that none of them reads. Return that name, or None
    where it keeps its own. Of a link, the link itself is renamed."""
    for number in range(1, _MOST_NAMES):
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
    """Kore is about to write `path` for a person who could be asked: what it creates stays."""
    with _lock:
        for newcomers in _open:
            if path.is_relative_to(newcomers.root) and path != newcomers.root:
                name = path.relative_to(newcomers.root).parts[0]
                if not os.path.lexists(newcomers.root / name):
                    newcomers.grant(name)
