"""Records of changes to files: steps, changes and states."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agent.records import frozen

Kind = Literal["file", "folder", "link"]
# "done" can be undone, "undone" redone. "kept" was skipped because others changed the file since:
# it is undone only with `force`. "gone" can be neither.
ChangeStatus = Literal["done", "undone", "kept", "gone"]


@frozen
class FileState:
    """State of a file, folder or link; None stands for a missing path.

    `value` is the fingerprint of the content ("" if unknown) or the target of a link, `mode` the
    permission bits (None if unknown). `is_marked` means that the file had untrusted text
    (`agent.security.taint.file_marks`).
    """

    kind: Kind
    value: str = ""
    mode: int | None = None
    is_marked: bool = False

    @property
    def is_known(self) -> bool:
        return self.kind == "folder" or self.value != ""

    def to_json(self) -> list[Any]:
        return [self.kind, self.value, self.mode, self.is_marked]

    @staticmethod
    def from_json(data: Sequence[Any] | None) -> "FileState | None":
        return None if data is None else FileState(*data)


def is_same_state(
    first: FileState | None, second: FileState | None, *, modes: bool = False
) -> bool:
    """Return whether both states are equal; an unknown state equals nothing.

    With `modes`, the permission bits count if both are known.
    """
    if first is None or second is None:
        return first is second
    if (first.kind, first.value) != (second.kind, second.value) or not first.is_known:
        return False
    return not modes or None in (first.mode, second.mode) or first.mode == second.mode


@frozen
class FileChange:
    """Change of one path in a step; `n` is its number in the step."""

    path: Path
    before: FileState | None
    after: FileState | None
    n: int = 0
    status: ChangeStatus = "done"

    @property
    def is_of_mode(self) -> bool:
        """True if only the permission bits changed."""
        return is_same_state(self.before, self.after)

    @property
    def is_of_folder(self) -> bool:
        state = self.before or self.after
        return state is not None and state.kind == "folder"

    def to_json(self) -> dict[str, Any]:
        before, after = (s and s.to_json() for s in (self.before, self.after))
        return {"path": str(self.path), "before": before, "after": after}

    @staticmethod
    def from_json(data: Mapping[str, Any], n: int, status: ChangeStatus) -> "FileChange":
        before, after = map(FileState.from_json, (data["before"], data["after"]))
        return FileChange(Path(data["path"]), before, after, n, status)


@frozen
class ChangeStep:
    """Changes of one tool call, in the order of a redo.

    `is_shared` means that another command ran in the same folder meanwhile, so either may have made
    the changes. `id` is assigned by the ledger, `made_at` is in Unix seconds.
    """

    session: str
    turn: int
    call: str
    tool: str
    root: Path
    changes: tuple[FileChange, ...]
    made_at: float
    is_shared: bool = False
    id: int = 0

    def with_changes(self, changes: Sequence[FileChange]) -> "ChangeStep":
        return replace(self, changes=tuple(changes))


@frozen
class ChangeOrigin:
    """Origin of a change: the tool call in a turn of a session that works in `root`."""

    session: str
    turn: int
    call: str
    tool: str
    root: Path
