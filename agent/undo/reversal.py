"""Undo and redo: planned against the disk, then carried out path by path.

Changes made by others since are skipped unless forced, and even then stored, so that a redo
restores them. An interrupted operation is completed when it is repeated.
"""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, KeysView, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.file_io import exclusive_file
from agent.security.files.ignore_rules import MAX_BYTES, Ignores
from agent.security.files.safe_open import open_regular_beneath
from agent.security.policy.base import COMMAND_TOOL
from agent.undo.change_log import ChangeLog
from agent.undo.ledger import (
    Direction,
    MoveVerdict,
    PathChange,
    ReversalResult,
    UndoOperation,
    UndoResult,
)
from agent.undo.records import ChangeStatus, ChangeStep, FileChange, FileState, is_same_state
from agent.undo.restore import restore, snapshot_path

# Compiled Python files (PEP 3147); Python writes no cache tag next to them.
_COMPILED = "__pycache__"
# https://bford.info/cachedir
_CACHE_TAG = "CACHEDIR.TAG"


class BuildProducts:
    """Build products below `root` according to the project's current rules. Blocks."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ignores = Ignores(root, root, _read)

    def __contains__(self, path: Path) -> bool:
        if not path.is_relative_to(self._root) or path == self._root:
            return False
        parts = path.relative_to(self._root).parts
        if _COMPILED in parts:
            return True
        folders = [self._root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        # The methods of `Path` raise for a closed folder.
        if any(os.path.isfile(folder / _CACHE_TAG) for folder in folders):
            return True
        return self._ignores.hides(parts, is_folder=os.path.isdir(path))


def _read(path: Path) -> bytes | None:
    try:
        with open_regular_beneath(path) as file:
            return file.read(MAX_BYTES)
    except OSError:
        return None


# Raises `ToolError` for a path that the caller may not change.
Check = Callable[[Path], object]


@frozen
class UndoRequest:
    """Request to undo or redo `steps`, turns (`by_turn`), or everything from the turn `since`.

    It is limited to `path` and below, if given. Steps that changed nothing do not count. Build
    products of commands are skipped unless `since` or `path` is given. With `force` they are undone
    as well, and so are files that others have changed since.
    """

    direction: Direction = "undo"
    steps: int = 1
    by_turn: bool = False
    since: int | None = None
    path: Path | None = None
    force: bool = False


class Reversal:
    """Undo and redo in one session.

    Every method blocks: call it in a thread. `beside` is another session of the ledger whose steps
    count as steps of this session.
    """

    def __init__(
        self, changes: ChangeLog, session: str, check: Check, beside: str | None = None
    ) -> None:
        self._changes = changes
        self._blobs = changes.blobs
        self._session = session
        self._beside = beside
        self._check = check

    def plan(self, request: UndoRequest) -> tuple[PathChange, ...]:
        """Return the planned moves in order, without changing anything. Raises `ToolError`."""
        planned_states: dict[Path, FileState | None] = {}
        moves: list[PathChange] = []
        units: set[Hashable] = set()
        products: dict[Path, BuildProducts] = {}
        for step in self._steps(request):
            # Changes made on the page belong to no turn.
            is_of_turn = request.by_turn and step.session == self._session
            # A command that changes several folders has a step for each.
            unit = ("turn", step.turn) if is_of_turn else (step.session, step.turn, step.call)
            if request.since is None and unit not in units and len(units) == request.steps:
                continue
            changes = [c for c in _in_order(step, request.direction) if _is_requested(c, request)]
            if _skips_build_products(step, request):
                if step.root not in products:
                    products[step.root] = BuildProducts(step.root)
                ignored = _ignored(changes, products[step.root])
                moves += [PathChange(step.id, step.root, change, "ignored") for change in ignored]
                changes = [change for change in changes if change not in ignored]
            planned = [self._move(step, change, request, planned_states) for change in changes]
            moves += planned
            if any(move.verdict != "already" for move in planned):
                units.add(unit)
        return tuple(moves)

    def carry_out(
        self, key: str, direction: Direction, moves: Sequence[PathChange]
    ) -> ReversalResult:
        """Carry out a plan; the same key repeats the same operation."""
        operation = self._changes.ledger.begin(
            UndoOperation(key, self._session, direction, tuple(moves))
        )
        if operation.report is not None:
            return self._repeat_outcome(operation)
        outcome = ReversalResult(
            tuple(self._carry_out_move(move, direction) for move in operation.moves)
        )
        changes = [(move.step, move.change) for move in outcome.moves]
        self._changes.ledger.end(UndoResult(key, self._session, changes, "done"))
        return outcome

    def _repeat_outcome(self, operation: UndoOperation) -> ReversalResult:
        """Return the original result of a repeated operation."""
        steps = {step.id: step for step in self._stored_steps()}
        moves = []
        for move in operation.moves:
            step = steps.get(move.step)
            now = next((c for c in step.changes if c.n == move.change.n), None) if step else None
            moves.append(replace(move, change=now or move.change))
        return ReversalResult(tuple(moves))

    def _stored_steps(self) -> list[ChangeStep]:
        """Return the stored steps, newest first."""
        ledger = self._changes.ledger
        steps = ledger.steps(self._session)
        if self._beside is None:
            return steps
        return sorted([*steps, *ledger.steps(self._beside)], key=lambda step: -step.id)

    def _steps(self, request: UndoRequest) -> Iterable[ChangeStep]:
        steps = self._stored_steps()
        if request.since is not None:
            steps = [step for step in steps if step.turn >= request.since]
        return steps if request.direction == "undo" else reversed(steps)

    def _move(
        self,
        step: ChangeStep,
        change: FileChange,
        request: UndoRequest,
        planned_states: dict[Path, FileState | None],
    ) -> PathChange:
        """Plan the move of one change, after all moves planned before it."""
        if not self._is_open(change.path):
            return PathChange(step.id, step.root, change, "closed")
        source, target = _states(change, request.direction)
        now = (
            planned_states[change.path]
            if change.path in planned_states
            else self._current_state(change.path, planned_states.keys())
        )
        verdict = self._verdict(step, change, (now, source, target))
        if request.force and verdict in ("changed", "shared") and _can_replace(now, target):
            # The overwritten content is what a redo (or another undo) restores.
            verdict = "go"
            change = _with_source(change, now, request.direction)
        elif verdict == "go" and now is not None and source is not None:
            change = _with_mode(change, now, request.direction)
        if verdict == "go":
            planned_states[change.path] = _states(change, request.direction)[1]
        return PathChange(step.id, step.root, change, verdict)

    def _verdict(
        self,
        step: ChangeStep,
        change: FileChange,
        states: tuple[FileState | None, FileState | None, FileState | None],
    ) -> MoveVerdict:
        now, source, target = states
        modes = change.is_of_mode
        if not is_same_state(now, source, modes=modes):
            return "already" if is_same_state(now, target, modes=modes) else "changed"
        if target is not None and not target.is_known:
            return "lost"
        is_file = target is not None and target.kind == "file"
        if is_file and target is not None and not self._blobs.has(target.value):
            return "lost"
        return "shared" if step.is_shared else "go"

    def _is_open(self, path: Path) -> bool:
        try:
            self._check(path)
        except ToolError:
            return False
        return True

    def _current_state(self, path: Path, planned: KeysView[Path]) -> FileState | None:
        try:
            return snapshot_path(path, self._blobs)[0]
        except ToolError:
            if not planned.isdisjoint(path.parents):
                return None  # a planned folder will replace it by then
            # An unrecorded object or a path behind a link: not the recorded state.
            return FileState("file")

    def _carry_out_move(self, move: PathChange, direction: Direction) -> PathChange:
        """Carry out one move, if the path is still as planned."""
        change = move.change
        status, undone = change.status, _target_status(direction)
        if move.verdict == "already":
            # The change never happened, or a person has undone it.
            status = "gone" if direction == "undo" else "done"
        elif move.verdict != "go":
            status = "kept" if direction == "undo" else "gone"
        else:
            source, target = _states(change, direction)
            status = undone if self._restore(move, source, target) else "kept"
        return replace(move, change=replace(change, status=status))

    def _restore(
        self, move: PathChange, source: FileState | None, target: FileState | None
    ) -> bool:
        path, modes = move.change.path, move.change.is_of_mode
        try:
            self._check(path)
            with exclusive_file(path):
                now, is_stored = snapshot_path(path, self._blobs, keep=True)
                if is_same_state(now, target, modes=modes):
                    return True
                if not is_same_state(now, source, modes=modes) or not is_stored:
                    return False
                if now is not None and now.kind == "file":
                    self._blobs.share([now.value])
                restore(path, now, target, self._blobs, move.root)
        except ToolError:
            return False
        return True


def _skips_build_products(step: ChangeStep, request: UndoRequest) -> bool:
    is_narrow = request.path is not None or request.since is not None or request.force
    return step.tool == COMMAND_TOOL and request.direction == "undo" and not is_narrow


def _ignored(changes: Sequence[FileChange], products: BuildProducts) -> list[FileChange]:
    """Return the changes of build products, and of folders created only for them."""
    source_changes = [change for change in changes if change.path not in products]
    files = [change.path for change in source_changes if not change.is_of_folder]
    made_for_others = [
        change
        for change in source_changes
        if not change.is_of_folder or any(path.is_relative_to(change.path) for path in files)
    ]
    ignored = [change for change in changes if change not in made_for_others]
    return ignored if len(ignored) > sum(change.is_of_folder for change in ignored) else []


def _target_status(direction: Direction) -> ChangeStatus:
    return "undone" if direction == "undo" else "done"


def _states(change: FileChange, direction: Direction) -> tuple[FileState | None, FileState | None]:
    """Return the expected current state and the target state."""
    after, before = change.after, change.before
    return (after, before) if direction == "undo" else (before, after)


def _with_source(change: FileChange, now: FileState | None, direction: Direction) -> FileChange:
    return replace(change, after=now) if direction == "undo" else replace(change, before=now)


def _with_mode(change: FileChange, now: FileState, direction: Direction) -> FileChange:
    """Return the change with the current permission bits, so that changes of them by others
    persist.
    """
    source, target = _states(change, direction)
    assert source is not None, "what is there was there"
    foreign = None not in (source.mode, now.mode) and source.mode != now.mode
    if foreign and target is not None and not change.is_of_mode:
        target = replace(target, mode=now.mode)
    before, after = (target, now) if direction == "undo" else (now, target)
    return replace(change, before=before, after=after)


def _can_replace(now: FileState | None, target: FileState | None) -> bool:
    """Return whether the target can replace the current state in one operation."""
    if now is not None and not now.is_known:
        return False
    return now is None or target is None or now.kind == target.kind == "file"


def _in_order(step: ChangeStep, direction: Direction) -> Iterator[FileChange]:
    return iter(step.changes if direction == "redo" else step.changes[::-1])


def _is_requested(change: FileChange, request: UndoRequest) -> bool:
    if request.path is not None and not change.path.is_relative_to(request.path):
        return False
    if request.direction == "redo":
        return change.status == "undone"
    return change.status == "done" or (request.force and change.status == "kept")
