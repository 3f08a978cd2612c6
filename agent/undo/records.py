"""What stood at a path before a change and after it, and whether it still stands there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agent.records import frozen

Kind = Literal["file", "folder", "link"]
# "done" can be undone, "undone" redone. "kept" was left alone because the file was changed by
# others since: it is undone only with `force`. "gone" can be neither.
ChangeStatus = Literal["done", "undone", "kept", "gone"]


@frozen
class FileState:
    """A file, folder or link; nothing at all is None.

    `value` is the fingerprint of a file's bytes ("" when unknown) or a link's target, `mode` its
    permission bits (None when they were not known yet). `is_marked` says that a file held
    strangers' words (`agent.security.taint.file_marks`).
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


def is_same_state(one: FileState | None, other: FileState | None, *, modes: bool = False) -> bool:
    """Whether both are the same thing; an unknown state equals nothing.

    The permission bits count with `modes`, where both are known.
    """
    if one is None or other is None:
        return one is other
    if (one.kind, one.value) != (other.kind, other.value) or not one.is_known:
        return False
    return not modes or None in (one.mode, other.mode) or one.mode == other.mode


@frozen
class FileChange:
    """One path that a step changed; `n` is its number in the step."""

    path: Path
    before: FileState | None
    after: FileState | None
    n: int = 0
    status: ChangeStatus = "done"

    @property
    def is_of_mode(self) -> bool:
        """Whether nothing but the permission bits changed."""
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
    """What one tool call changed, in the order in which it is redone.

    `is_shared` says that another command ran in the same folder meanwhile: either of the two may
    have made the changes. `id` is given by the ledger, `made_at` is in Unix seconds.
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
    """Whose change it is: the call of a tool in a turn of a session, at work in `root`."""

    session: str
    turn: int
    call: str
    tool: str
    root: Path
