"""Port for the ledger of file changes: steps and undo operations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.records import frozen
from agent.undo.records import ChangeStatus, ChangeStep, FileChange

# Older steps are dropped.
RETENTION_S = 7 * 86_400
Direction = Literal["undo", "redo"]
MoveVerdict = Literal["go", "already", "ignored", "changed", "shared", "closed", "lost"]


@frozen
class PathChange:
    """Planned reversal of one path.

    `verdict` is "go", or the reason to leave the path alone: it is "already" in the target state, a
    build product that the project has "ignored", "changed" by others since, possibly changed by a
    command that ran at the same time ("shared"), "closed" to the caller, or its content is "lost"
    from the store.
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
    """Undo that has begun; repeating it under the same key has the same result.

    `report` is its result, or None while it is running.
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
    """Result of an operation: the state of its changes by step, and the report."""

    key: str
    session: str
    changes: Sequence[tuple[int, FileChange]]
    report: str


class Ledger(Protocol):
    """Storage of the steps of sessions.

    Called in threads and may block. Each method is one transaction, on disk when it returns. Raises
    `KoreError` if storing fails.
    """

    def add(self, step: ChangeStep) -> None:
        """Store a step before it happens. Undone steps of its session can no longer be redone."""
        ...

    def steps(self, session: str) -> list[ChangeStep]:
        """Return the stored steps of a session, newest first."""
        ...

    def begin(self, operation: UndoOperation) -> UndoOperation:
        """Store an operation before it runs. Return the stored operation if the key exists."""
        ...

    def end(self, result: UndoResult) -> None:
        """Store the result of an operation."""
        ...


@frozen
class ReversalResult:
    """Moves of an operation with the current state of their changes."""

    moves: tuple[PathChange, ...]

    def paths(self, *statuses: ChangeStatus) -> list[Path]:
        paths = [m.change.path for m in self.moves if m.change.status in statuses]
        return list(dict.fromkeys(paths))
