"""What SQLite refuses, as the errors that callers of the store get."""

import sqlite3
from pathlib import Path

from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError, catalogue_text

# The low byte of SQLite's codes; the rest says more of the same (https://sqlite.org/rescode.html).
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def mapped(error: sqlite3.Error, file: Path | None = None) -> StoreError:
    """The error that callers get for one of SQLite's, of the database in `file`."""
    text = str(error)
    # What Python's module raises itself has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreBusy(
            "the disk is full: nothing more can be stored", hint="Free some disk space."
        )
    if code in _BROKEN:
        return StoreCorrupt(file, text)
    kind = StoreBusy if code in _LATER else StoreError
    return kind(catalogue_text("the database returned an error: {reason}"), reason=text)
