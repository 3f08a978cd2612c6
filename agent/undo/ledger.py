"""The port to the record of changes: which steps there were, and which undoing is under way."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.records import frozen
from agent.undo.records import ChangeStatus, ChangeStep, FileChange

# Older steps are forgotten.
KEEP_S = 7 * 86_400
Direction = Literal["undo", "redo"]
MoveVerdict = Literal["go", "already", "ignored", "changed", "shared", "closed", "lost"]


@frozen
class PathChange:
    """One path on its way back (or forth again), as it was planned.

    `verdict` says why it goes or stays: it is there "already", it is a build product that the
    project has "ignored", it was "changed" by others since, perhaps by a command that ran at the
    same time ("shared"), the caller may not change it ("closed"), or what it held is no longer
    kept ("lost").
    """

    step: int
    root: Path
    change: FileChange
    verdict: MoveVerdict

    def to_json(self) -> list[Any]:
        change = self.change
        root, data = str(self.root), change.to_json()
        return [self.step, root, data, change.n, change.status, self.verdict]

    @staticmethod
    def from_json(fields: Sequence[Any]) -> "PathChange":
        step, root, change_data, n, status, verdict = fields
        return PathChange(step, Path(root), FileChange.from_json(change_data, n, status), verdict)


@frozen
class UndoOperation:
    """An undo that has begun: repeating it under the same key does the same.

    `report` is what it came to, None as long as it has not ended.
    """

    key: str
    session: str
    direction: Direction
    moves: tuple[PathChange, ...]
    report: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"direction": self.direction, "moves": [move.to_json() for move in self.moves]}

    @staticmethod
    def from_json(
        key: str, session: str, data: Mapping[str, Any], report: str | None
    ) -> "UndoOperation":
        moves = tuple(map(PathChange.from_json, data["moves"]))
        return UndoOperation(key, session, data["direction"], moves, report)


@frozen
class UndoResult:
    """How an operation ended: where its changes stand now, by step, and what was said of it."""

    key: str
    session: str
    changes: Sequence[tuple[int, FileChange]]
    report: str


class Ledger(Protocol):
    """Keeps the steps of sessions. It is called in threads and may block.

    Each method is one transaction, on disk when it returns. Raises `KoreError` when it cannot be
    kept.
    """

    def add(self, step: ChangeStep) -> None:
        """A step is about to happen. What was undone in its session cannot be redone any more."""
        ...

    def steps(self, session: str) -> list[ChangeStep]:
        """All that is kept of a session, newest first."""
        ...

    def begin(self, operation: UndoOperation) -> UndoOperation:
        """Store an operation before it runs; returns the one that has this key already, if any."""
        ...

    def end(self, result: UndoResult) -> None:
        """The operation has ended."""
        ...


@frozen
class ReversalResult:
    """What became of each path: the move, with the change as it stands now."""

    moves: tuple[PathChange, ...]

    def paths(self, *statuses: ChangeStatus) -> list[Path]:
        paths = [m.change.path for m in self.moves if m.change.status in statuses]
        return list(dict.fromkeys(paths))
