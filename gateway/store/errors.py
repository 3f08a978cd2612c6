"""What the database refuses, in our words."""

import sqlite3
from pathlib import Path

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

    def __init__(self, file: Path | None, found: str) -> None:
        which = f" {file}" if file is not None else ""
        super().__init__(f"the database{which} is damaged: {found}", hint=RESTORE)


# The low byte of SQLite's codes; the rest says more of the same (https://sqlite.org/rescode.html).
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def mapped(error: sqlite3.Error, file: Path | None = None) -> StoreError:
    """The error that callers get for one of SQLite's, of the database in `file`."""
    text = str(error)
    # What Python's module raises itself has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreBusy("the disk is full: nothing more can be stored", hint="Free some space.")
    if code in _BROKEN:
        return StoreCorrupt(file, text)
    if "user-defined function" in text:
        return StoreError(
            "a sealed text does not open: it was changed, or put into another row",
            hint="Put a backup in its place (`kore backup` makes them).",
        )
    kind = StoreBusy if code in _LATER else StoreError
    return kind(f"the database refused: {text}")
