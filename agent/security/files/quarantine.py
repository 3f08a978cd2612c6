"""What steers later turns or other programs, made by a command that knows strangers' words.

It cannot be asked about before: what such a command makes is known afterwards only, and a name that
does not exist cannot be made read-only. So it gets a name that no program reads. Only what lies on
top of the workspace, where Kore looks for it.
"""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from agent.security.files.filenames import normalize_filename
from agent.security.files.instruction_files import CONFIGURATIONS, PROMPT_FILES, PROMPT_FOLDERS

SUFFIX = ".set-aside"
_NAMES = PROMPT_FILES | PROMPT_FOLDERS | CONFIGURATIONS


class CreatedFiles:
    """`begin` before the command, `end` after it; more than one may run at once."""

    def __init__(self, workspace: Path, further: frozenset[str]) -> None:
        """`further`: names besides those that are always looked at, folded."""
        self.root = Path(os.path.realpath(workspace))
        self._names = _NAMES | further
        self._existing: set[str] = set()

    def begin(self) -> None:
        self._existing = set(self._list_matching())
        with _lock:
            _open.append(self)

    def end(self, *, is_exposed: bool) -> Sequence[tuple[str, str]]:
        """The old and new names of what has come since, if the command may know strangers' words.

        What cannot be renamed keeps its name, and its mark (`marks`). May block.
        """
        with _lock:
            _open.remove(self)
        moved = []
        for name in self._list_matching() if is_exposed else ():
            if name not in self._existing and (new := self._set_aside(name)) is not None:
                moved.append((name, new))
        return moved

    def grant(self, name: str) -> None:
        """It was made by Kore itself meanwhile."""
        self._existing.add(name)

    def _list_matching(self) -> Sequence[str]:
        try:
            return sorted(
                name for name in os.listdir(self.root) if normalize_filename(name) in self._names
            )
        except OSError:
            return ()

    def _set_aside(self, name: str) -> str | None:
        for number in range(1, 1_000):
            new = f"{name}{SUFFIX}" + (f"-{number}" if number > 1 else "")
            if os.path.lexists(self.root / new):
                continue
            try:
                # Of a link, the link itself.
                os.rename(self.root / name, self.root / new)
            except OSError:
                return None
            return new
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
