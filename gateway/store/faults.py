"""What the database refuses, in our words."""

import sqlite3

from agent.errors import KoreError


class StoreError(KoreError):
    """The database cannot be used; it is never recreated by itself."""

    code = "store"


class NotNow(StoreError):
    """The disk or the database is full, locked or failing: the same may be done later."""


# The low byte of SQLite's codes; the rest says more of the same (https://sqlite.org/rescode.html).
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)


def mapped(error: sqlite3.Error) -> StoreError:
    """The error that callers get for one of SQLite's."""
    text = str(error)
    # What Python's module raises itself has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return NotNow("the disk is full: nothing more can be stored", hint="Free some space.")
    if "user-defined function" in text:
        return StoreError(
            "a sealed text does not open: it was changed, or put into another row",
            hint="Put a backup in its place (`kore backup` makes them).",
        )
    kind = NotNow if code in _LATER else StoreError
    return kind(f"the database refused: {text}")
