"""Errors of the store; their texts are catalogue entries, translated where they are shown."""

from pathlib import Path
from typing import Literal

from agent.errors import ConfigError, KoreError


def catalogue_text(english: str) -> str:
    """Return the text unchanged; `make catalogue` finds the texts of this package by this name."""
    return english


RESTORE = catalogue_text(
    "Stop Kore, keep a copy of the file and restore a backup: `kore restore FILE`"
    " (`kore backup` creates backups). If there is none, move the file away."
)


class StoreError(KoreError):
    """The database cannot be used; it is never recreated automatically."""

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
    """Another Kore has taken over the database: this one can no longer store anything."""


class StoreBusy(StoreError):
    """The disk or the database is full, locked or failing; a later attempt may succeed."""


class StoreClosed(StoreError):
    """The process is closing the database: it stops, or another process takes over."""

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
    """The encryption key for messages is missing or malformed."""

    def __init__(self, message: str, /, *, hint: str | None = None, **fields: object) -> None:
        super().__init__(message, hint=hint, fields=fields)


class SealBroken(StoreError):
    """A stored text does not open: the text or a column that it is bound to was changed."""

    def __init__(self) -> None:
        super().__init__(
            catalogue_text(
                "an encrypted text cannot be decrypted: it was changed or moved to another row"
            ),
            hint=catalogue_text("Restore a backup (`kore restore`)."),
        )


class SearchRefused(Exception):
    """A search is not possible.

    The database is encrypted, or the query has no words or too many.
    """

    def __init__(self, reason: Literal["sealed", "no-words", "too-many-words"]) -> None:
        super().__init__(reason)
        self.reason = reason


ReplayRefusal = Literal[
    "unknown", "denied", "one-shot", "at-work", "subagent-at-work", "subagent-task"
]


class ReplayRefused(Exception):
    """A message cannot be queued again.

    For a sub-agent's task, `subagent` is its number and `request_seq` the message that started it,
    if that message can be replayed.
    """

    def __init__(
        self, reason: ReplayRefusal, *, subagent: int | None = None, request_seq: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.subagent = subagent
        self.request_seq = request_seq
