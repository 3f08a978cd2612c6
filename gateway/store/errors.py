"""What the database refuses, in our words: entries of the catalogue, translated where shown."""

from pathlib import Path
from typing import Literal

from agent.errors import ConfigError, KoreError


def catalogue_text(english: str) -> str:
    """The text as it stands; `make catalogue` finds the texts of this package by this name."""
    return english


RESTORE = catalogue_text(
    "Stop Kore, keep a copy of the file and restore a backup: `kore restore FILE`"
    " (`kore backup` creates backups). If there is none, move the file away."
)


class StoreError(KoreError):
    """The database cannot be used; it is never recreated by itself."""

    code = "store"

    def __init__(self, message: str, /, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message, hint=hint, fields=fields)


class StoreInUse(StoreError):
    """Another Kore owns the data."""

    def __init__(self, place: str, owner: str) -> None:
        text = catalogue_text("the database {path} is in use by Kore on {owner}")
        hint = catalogue_text("Stop that one first, or wait for its end: `kore gateway --standby`.")
        super().__init__(text, hint=hint, path=place, owner=owner)
        self.owner = owner


class StoreTakenOver(StoreError):
    """Another Kore has taken the place of this one: nothing can be stored any more."""


class StoreBusy(StoreError):
    """The disk or the database is full, locked or failing: the same may be done later."""


class StoreClosed(StoreError):
    """The process lets go of the database: it stops, or another one takes over."""

    def __init__(self) -> None:
        super().__init__(catalogue_text("the database is closed"))


class StoreCorrupt(StoreError):
    """The file is damaged; only restoring a backup helps."""

    def __init__(self, file: Path | None, finding: str) -> None:
        if file is None:
            text = catalogue_text("the database is damaged: {finding}")
            super().__init__(text, hint=RESTORE, finding=finding)
        else:
            text = catalogue_text("the database {path} is damaged: {finding}")
            super().__init__(text, hint=RESTORE, path=file, finding=finding)


class EncryptionKeyError(ConfigError):
    """The key that messages are encrypted with is missing or malformed."""

    def __init__(self, message: str, /, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message, hint=hint, fields=fields)


class SealBroken(StoreError):
    """A stored text does not open: it, or a column that it is bound to, was changed."""

    def __init__(self) -> None:
        super().__init__(
            catalogue_text(
                "an encrypted text cannot be decrypted: it was changed or moved to another row"
            ),
            hint=catalogue_text("Restore a backup (`kore restore`)."),
        )


class SearchRefused(Exception):
    """Nothing can be searched: the database is sealed, there is no word to search for, or too
    many."""

    def __init__(self, reason: Literal["sealed", "no-words", "too-many-words"]) -> None:
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
