"""What the database refuses, in our words."""

import sqlite3

from agent.errors import KoreError


class StoreError(KoreError):
    """The database cannot be used; it is never recreated by itself."""

    code = "store"


def mapped(error: sqlite3.Error) -> StoreError:
    """The error that callers get for one of SQLite's."""
    text = str(error)
    if "full" in text:
        return StoreError("the disk is full: nothing more can be stored", hint="Free some space.")
    if "user-defined function" in text:
        return StoreError(
            "a sealed text does not open: it was changed, or put into another row",
            hint="Put a backup in its place (`kore backup` makes them).",
        )
    return StoreError(f"the database refused: {text}")
