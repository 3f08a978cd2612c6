"""Changes of files: what is known of them, and how several of one file become one."""

from pathlib import Path
from typing import Literal

from agent.records import frozen

ChangeKind = Literal["created", "changed", "deleted"]

# Paths of one batch; of what is beyond only the number is known.
MOST_PATHS = 10_000

# Of a file that surely was not there before it is known that nothing is left when it goes.
_Kind = Literal["new", "created", "changed", "deleted"]
# What two changes of a path in a row come to; None where nothing is left of them.
_JOINED: dict[_Kind, dict[_Kind, _Kind | None]] = {
    "new": {"new": "new", "created": "new", "changed": "new", "deleted": None},
    "created": {"new": "created", "created": "created", "changed": "created", "deleted": "deleted"},
    "changed": {"new": "changed", "created": "changed", "changed": "changed", "deleted": "deleted"},
    "deleted": {"new": "changed", "created": "changed", "changed": "changed", "deleted": "deleted"},
}


@frozen
class WatchedChange:
    """A file, or a folder (`is_folder`) that is deleted or moved away with all that was in it.

    What a program moves to a path (editors save so) is `created`, whether or not there was a file:
    the kernel does not say.
    """

    path: Path
    kind: ChangeKind
    is_folder: bool = False


@frozen
class ChangeBatch:
    """What has changed below `root` in a short time, in order, each file once. When it is not
    `is_complete`, more may have changed than is named: look at everything anew."""

    root: Path
    changes: tuple[WatchedChange, ...]
    is_complete: bool = True


class ChangeSet:
    """Changes on their way to who reads them, joined and bounded."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Folders end with a slash: where one was, there may be a file now. In the order of the last
        # change of each, so that a file in a folder that went and came is told after that.
        self._kinds: dict[str, _Kind] = {}
        self._is_complete = True

    def __bool__(self) -> bool:
        return bool(self._kinds) or not self._is_complete

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, path: str, kind: _Kind) -> None:
        """A change of a file; `new` is one that surely was not there before."""
        if path not in self._kinds:
            if len(self._kinds) < MOST_PATHS:
                self._kinds[path] = kind
            else:
                self._is_complete = False
        elif (joined := _JOINED[self._kinds.pop(path)][kind]) is not None:
            self._kinds[path] = joined

    def add_deleted_folder(self, path: str) -> None:
        """All that was in it has gone, too."""
        self.add(f"{path}/", "deleted")

    def add_batch(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            if change.is_folder:
                self.add_deleted_folder(str(change.path))
            else:
                self.add(str(change.path), change.kind)
        self._is_complete = self._is_complete and batch.is_complete

    def mark_incomplete(self) -> None:
        """Some changes are not known."""
        self._is_complete = False

    def take(self) -> ChangeBatch:
        """All of them, which are not held any longer."""
        changes = tuple(_change(path, kind) for path, kind in self._kinds.items())
        batch = ChangeBatch(self._root, changes, self._is_complete)
        self._kinds, self._is_complete = {}, True
        return batch


def _change(path: str, kind: _Kind) -> WatchedChange:
    return WatchedChange(Path(path), "created" if kind == "new" else kind, path.endswith("/"))
