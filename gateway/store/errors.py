"""What the database refuses, in our words."""

from pathlib import Path
from typing import Literal

from agent.errors import KoreError

RESTORE = (
    "Stop Kore, keep a copy of the file, and put a backup in its place: `kore restore FILE`"
    " (`kore backup` makes them). Without one, move the file away."
)


class StoreError(KoreError):
    """The database cannot be used; it is never recreated by itself."""

    code = "store"


class StoreBusy(StoreError):
    """The disk or the database is full, locked or failing: the same may be done later."""


class StoreCorrupt(StoreError):
    """The file is not whole: only a backup in its place mends that."""

    def __init__(self, file: Path | None, finding: str) -> None:
        which = f" {file}" if file is not None else ""
        super().__init__(f"the database{which} is damaged: {finding}", hint=RESTORE)


def seal_broken() -> StoreError:
    """For a stored text that does not open."""
    return StoreError(
        "an encrypted text cannot be decrypted: it was changed or moved to another row",
        hint="Restore a backup (`kore restore`).",
    )


class SearchRefused(Exception):
    """Nothing can be searched: the database is sealed, or there is no word to search for."""

    def __init__(self, reason: Literal["sealed", "no-words"]) -> None:
        super().__init__(reason)
        self.reason = reason


ReplayRefusal = Literal[
    "unknown", "denied", "one-shot", "at-work", "subagent-at-work", "subagent-task"
]


class ReplayRefused(Exception):
    """A message cannot wait again. A sub-agent's task names the `subagent`, and by `request_seq`
    the message that it was sent out for, where that can be replayed."""

    def __init__(
        self, reason: ReplayRefusal, *, subagent: int | None = None, request_seq: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.subagent = subagent
        self.request_seq = request_seq
