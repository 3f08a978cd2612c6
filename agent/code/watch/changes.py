"""Changes of watched files, and the merging of several changes per file."""

from pathlib import Path
from typing import Literal

from agent.records import frozen

ChangeKind = Literal["created", "changed", "deleted"]

# Limit per batch; changes of further paths only make the batch incomplete.
MAX_PATHS = 10_000

# `new`: the file certainly did not exist before, so deleting it leaves no change.
_Kind = Literal["new", "created", "changed", "deleted"]
# Result of two consecutive changes of a path; None if they cancel out.
_MERGED: dict[_Kind, dict[_Kind, _Kind | None]] = {
    "new": {"new": "new", "created": "new", "changed": "new", "deleted": None},
    "created": {"new": "created", "created": "created", "changed": "created", "deleted": "deleted"},
    "changed": {"new": "changed", "created": "changed", "changed": "changed", "deleted": "deleted"},
    "deleted": {"new": "changed", "created": "changed", "changed": "changed", "deleted": "deleted"},
}


@frozen
class WatchedChange:
    """Changed file, or a folder (`is_folder`) that was deleted or moved away with its content.

    A file that a program moves to a path, as editors do when they save, is `created` even if the
    path existed, because the kernel does not tell.
    """

    path: Path
    kind: ChangeKind
    is_folder: bool = False


@frozen
class ChangeBatch:
    """Changes below `root` within a short time, in order, one per path.

    If `is_complete` is false, some changes are missing: scan the whole tree.
    """

    root: Path
    changes: tuple[WatchedChange, ...]
    is_complete: bool = True


class ChangeSet:
    """Bounded set of merged changes that have not been read yet."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Folders end with a slash, since a file may now have the path of a former folder. Entries
        # are ordered by last change, so that a file in a folder that was deleted and created again
        # follows it.
        self._kinds: dict[str, _Kind] = {}
        self._is_complete = True

    def __bool__(self) -> bool:
        return bool(self._kinds) or not self._is_complete

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, path: str, kind: _Kind) -> None:
        """Add a change of a file; `new` means that the file certainly did not exist before."""
        if path not in self._kinds:
            if len(self._kinds) < MAX_PATHS:
                self._kinds[path] = kind
            else:
                self._is_complete = False
        elif (merged := _MERGED[self._kinds.pop(path)][kind]) is not None:
            self._kinds[path] = merged

    def add_deleted_folder(self, path: str) -> None:
        """Add a deleted folder, with everything that was in it."""
        self.add(f"{path}/", "deleted")

    def add_batch(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            if change.is_folder:
                self.add_deleted_folder(str(change.path))
            else:
                self.add(str(change.path), change.kind)
        self._is_complete = self._is_complete and batch.is_complete

    def mark_incomplete(self) -> None:
        """Note that some changes are unknown."""
        self._is_complete = False

    def take(self) -> ChangeBatch:
        """Return all changes and clear the set."""
        changes = tuple(_change(path, kind) for path, kind in self._kinds.items())
        batch = ChangeBatch(self._root, changes, self._is_complete)
        self._kinds, self._is_complete = {}, True
        return batch


def _change(path: str, kind: _Kind) -> WatchedChange:
    return WatchedChange(Path(path), "created" if kind == "new" else kind, path.endswith("/"))
