"""Log of file changes, shared by all sessions of an agent."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import KoreError, ToolError
from agent.undo.blob_store import BlobStore
from agent.undo.ledger import Ledger
from agent.undo.records import ChangeOrigin, ChangeStep, FileChange, FileState, is_same_state
from agent.undo.restore import snapshot_path

_NOT_SHARED_NOTE = "the earlier content could not be shared, so only this machine can undo this"


@dataclass(slots=True, eq=False)
class TrackingWindow:
    """Running command and its folder.

    `paths_of_others` were changed by others meanwhile; `overlaps` means that another command ran in
    the folder at the same time.
    """

    origin: ChangeOrigin
    overlaps: bool = False
    paths_of_others: set[Path] = field(default_factory=set)


class ChangeLog:
    """Log that records each change before it happens.

    Call it in threads, since every method may block.
    """

    def __init__(self, ledger: Ledger, blobs: BlobStore) -> None:
        self.ledger = ledger
        self.blobs = blobs
        self._windows: list[TrackingWindow] = []
        self._lock = threading.Lock()

    def files(self, origin: ChangeOrigin, contents: Mapping[Path, bytes]) -> list[str]:
        """Record that each path is about to get this content, in one step.

        Returns notes about changes that cannot be undone. Raises `ToolError` if the step cannot be
        recorded; nothing may be written then.
        """
        changes: list[FileChange] = []
        notes: list[str] = []
        folders: set[Path] = set()
        for path, data in contents.items():
            before, is_stored = snapshot_path(path, self.blobs, keep=True)
            mode = before.mode if before else None
            is_marked = before.is_marked if before else False
            after = FileState("file", self.blobs.name(data), mode, is_marked)
            if is_same_state(before, after):
                continue
            missing = [
                folder_change
                for folder_change in _missing_folders(path)
                if folder_change.path not in folders
            ]
            folders.update(folder_change.path for folder_change in missing)
            changes += [*missing, FileChange(path, before, after)]
            if before is not None and not is_stored:
                notes.append(f"what {path} held before could not be kept, so this cannot be undone")
        if changes:
            with self._lock:
                for window in self._windows:
                    if window.origin.session != origin.session:
                        window.paths_of_others.update(contents)
            notes += self.add(origin, changes)
        return notes

    def folder(self, origin: ChangeOrigin, path: Path) -> None:
        """Record the creation of a folder and its missing parents. Raises `ToolError`."""
        self.add(origin, [*_missing_folders(path), FileChange(path, None, FileState("folder"))])

    def add(
        self, origin: ChangeOrigin, changes: list[FileChange], *, shared: bool = False
    ) -> list[str]:
        """Record the changes of a call and return notes for the person. Raises `ToolError`."""
        needed = [
            change.before.value
            for change in changes
            if change.before and change.before.kind == "file"
        ]
        is_everywhere = self.blobs.share(filter(None, needed))
        step = ChangeStep(
            session=origin.session,
            turn=origin.turn,
            call=origin.call,
            tool=origin.tool,
            root=origin.root,
            changes=tuple(changes),
            made_at=time.time(),
            is_shared=shared,
        )
        try:
            self.ledger.add(step)
        except KoreError as exc:
            raise ToolError(f"The change could not be recorded, so it was not made: {exc}") from exc
        return [] if is_everywhere else [_NOT_SHARED_NOTE]

    def open(self, origin: ChangeOrigin) -> TrackingWindow:
        """Note that a command is about to run in its folder."""
        window = TrackingWindow(origin)
        with self._lock:
            for other in self._windows:
                if _overlap(other.origin.root, origin.root):
                    other.overlaps = window.overlaps = True
            self._windows.append(window)
        return window

    def close(self, window: TrackingWindow) -> None:
        with self._lock:
            self._windows.remove(window)


def _missing_folders(path: Path) -> list[FileChange]:
    """Return the folders that a write to `path` will create, outermost first."""
    missing = []
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(FileChange(folder, None, FileState("folder")))
    return missing[::-1]


def _overlap(first: Path, second: Path) -> bool:
    return first.is_relative_to(second) or second.is_relative_to(first)
