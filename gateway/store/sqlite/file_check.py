"""Read-only integrity check of a database file."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from gateway.store.errors import StoreBusy
from gateway.store.sqlite.migrator import require_supported


def check_file(path: Path) -> tuple[str, int | None]:
    """Return "ok" or the damage of a database file, and the number of its schema.

    The file is opened for reading only. Raises `StoreBusy` when another program has locked it, and
    `StoreError` when this Kore cannot open its schema.
    """
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1)
        ) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if verdict == "ok":
                require_supported(database, path)
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreBusy("the database {path} is in use by another program", path=path) from exc
        return str(exc), None
    return str(verdict), int(version)
