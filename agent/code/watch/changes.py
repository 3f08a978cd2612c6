"""Changes of files: what is known of them, and how several of one file become one."""

from pathlib import Path
from typing import Literal

from agent.records import frozen

ChangeKind = Literal["created", "changed", "deleted"]

# Paths of one batch; of what is beyond only the number is known.
MOST_PATHS = 10_000

# What two changes of a path in a row come to; None where nothing is left of them.
_JOINED: dict[tuple[ChangeKind, ChangeKind], ChangeKind | None] = {
    ("created", "created"): "created",
    ("created", "changed"): "created",
    ("created", "deleted"): None,
    ("changed", "created"): "changed",
    ("changed", "changed"): "changed",
    ("changed", "deleted"): "deleted",
    ("deleted", "created"): "changed",
    ("deleted", "changed"): "changed",
    ("deleted", "deleted"): "deleted",
}


@frozen
class WatchedChange:
    """A file, or a folder that was moved away with all that is in it.

    What a program moves to a path (editors save so) is `created`, whether or not there was a file:
    the kernel does not say.
    """

    path: Path
    kind: ChangeKind


@frozen
class ChangeBatch:
    """What has changed below `root` in a short time, each path once. When it is not `is_complete`,
    more may have changed than is named: look at everything anew."""

    root: Path
    changes: tuple[WatchedChange, ...]
    is_complete: bool = True


class ChangeSet:
    """Changes on their way to who reads them, joined and bounded."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kinds: dict[str, ChangeKind] = {}
        self._is_complete = True

    def __bool__(self) -> bool:
        return bool(self._kinds) or not self._is_complete

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, path: str, kind: ChangeKind) -> None:
        before = self._kinds.get(path)
        if before is None:
            if len(self._kinds) < MOST_PATHS:
                self._kinds[path] = kind
            else:
                self._is_complete = False
        elif (joined := _JOINED[before, kind]) is not None:
            self._kinds[path] = joined
        else:
            del self._kinds[path]

    def add_batch(self, batch: ChangeBatch) -> None:
        for change in batch.changes:
            self.add(str(change.path), change.kind)
        self._is_complete = self._is_complete and batch.is_complete

    def mark_incomplete(self) -> None:
        """Some changes are not known."""
        self._is_complete = False

    def take(self) -> ChangeBatch:
        """All of them, which are not held any longer."""
        changes = tuple(WatchedChange(Path(path), kind) for path, kind in self._kinds.items())
        batch = ChangeBatch(self._root, changes, self._is_complete)
        self._kinds, self._is_complete = {}, True
        return batch
