"""Mapping of SQLite's errors to the store's errors."""

import sqlite3
from pathlib import Path

from gateway.store.errors import StoreBusy, StoreCorrupt, StoreError, catalogue_text

# Low byte of SQLite's codes; the other bytes give details (https://sqlite.org/rescode.html).
_LATER = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def mapped(error: sqlite3.Error, file: Path | None = None) -> StoreError:
    """Return the store's error for one of SQLite's, about the database in `file`."""
    text = str(error)
    # Errors that Python's module raises itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreBusy(
            "the disk is full: nothing more can be stored", hint="Free some disk space."
        )
    if code in _BROKEN:
        return StoreCorrupt(file, text)
    kind = StoreBusy if code in _LATER else StoreError
    return kind(catalogue_text("the database returned an error: {reason}"), reason=text)
