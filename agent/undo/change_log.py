"""The journal of file changes that all sessions of an agent share."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import KoreError, ToolError
from agent.undo.blob_store import Blobs
from agent.undo.ledger import Ledger
from agent.undo.recorder import Origin
from agent.undo.records import Change, State, Step, same
from agent.undo.restore import look


@dataclass(slots=True, eq=False)
class Window:
    """A command at work in a folder. `others` are files that others have changed meanwhile;
    `overlaps` says that another command ran at the same time."""

    origin: Origin
    overlaps: bool = False
    others: set[Path] = field(default_factory=set)


class Changes:
    """Records each change before it happens. Called in threads: everything here may block."""

    def __init__(self, ledger: Ledger, blobs: Blobs) -> None:
        self.ledger = ledger
        self.blobs = blobs
        self._windows: list[Window] = []
        self._lock = threading.Lock()

    def file(self, origin: Origin, path: Path, data: bytes) -> str | None:
        """`path` is about to hold `data`; returns why that cannot be undone, if so.

        Raises ToolError when it cannot be recorded: then nothing must be done.
        """
        before, kept = look(path, self.blobs, keep=True)
        mode = before.mode if before else None
        after = State("file", self.blobs.name(data), mode, before.marked if before else False)
        if same(before, after):
            return None
        with self._lock:
            for window in self._windows:
                if window.origin.session != origin.session:
                    window.others.add(path)
        self.add(origin, [*_missing_folders(path), Change(path, before, after)])
        if before is not None and not kept:
            return f"what {path} held before could not be kept, so this cannot be undone"
        return None

    def add(self, origin: Origin, changes: list[Change], *, shared: bool = False) -> None:
        """Put what a call changes on record. Raises ToolError."""
        step = Step(
            session=origin.session,
            turn=origin.turn,
            call=origin.call,
            tool=origin.tool,
            root=origin.root,
            changes=tuple(changes),
            made_at=time.time(),
            shared=shared,
        )
        try:
            self.ledger.add(step)
        except KoreError as exc:
            raise ToolError(f"The change could not be recorded, so it was not made: {exc}") from exc

    def open(self, origin: Origin) -> Window:
        """A command is about to run in a folder."""
        window = Window(origin)
        with self._lock:
            for other in self._windows:
                if _meet(other.origin.root, origin.root):
                    other.overlaps = window.overlaps = True
            self._windows.append(window)
        return window

    def close(self, window: Window) -> None:
        with self._lock:
            self._windows.remove(window)


def _missing_folders(path: Path) -> list[Change]:
    """The folders that a write to `path` will make, outermost first."""
    missing = []
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(Change(folder, None, State("folder")))
    return missing[::-1]


def _meet(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
