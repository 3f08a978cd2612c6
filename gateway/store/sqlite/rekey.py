"""Change of the key of a whole database, through a copy that replaces it atomically."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gateway.store.cipher import SEALED, Cipher
from gateway.store.errors import StoreError
from gateway.store.repositories.conversations import search
from gateway.store.sealing import key_mark, mark_sealed, resealed
from gateway.store.sqlite.engine import connect, mapped_error
from gateway.store.sqlite.migrator import copies
from gateway.store.sqlite.transaction import SqliteTransaction, table_names


def is_sealed(path: Path) -> bool:
    """Return whether the texts in this database are sealed. Raises `StoreError`."""
    try:
        with closing(sqlite3.connect(path, timeout=1)) as connection:
            return key_mark(SqliteTransaction(connection), table_names(connection)) is not None
    except sqlite3.Error as exc:
        raise mapped_error(exc) from exc


def rekey(
    path: Path, old: Cipher | None, new: Cipher | None, forget: Callable[[], None] = lambda: None
) -> int:
    """Seal all texts with `new` instead of `old`; return the number of rows.

    No other process may have the database open. After an interruption the file is either the
    complete old one or the complete new one. Before the new file takes its place, everything that
    was stored with the old key is deleted: copies from upgrades by this function, everything else
    by `forget`. Deleted data are not wiped from the disk. Raises `StoreError`; then the database
    has not changed.
    """
    work, fresh = (path.with_name(f"{path.name}.{end}") for end in ("rekey", "rekey-new"))
    discard_copies(path)
    try:
        with closing(connect(path, check=True, cipher=old)) as connection:
            _copy(connection, work)
            with closing(sqlite3.connect(work, isolation_level=None)) as copy:
                count = _reseal(connection, copy, old, new)
                # Copy again: free pages and the gaps between rows still contain the old texts.
                _copy(copy, fresh)
            _verify(fresh)
            # SQLite would take a remaining log for the new file's.
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            if mode != "delete":
                raise StoreError("the database {path} is in use; nothing was changed", path=path)
        # Delete the copies before the swap: after a kill right after it, a second run would find
        # nothing to do and leave them forever.
        for copy_of_old in copies(path):
            copy_of_old.unlink()
        forget()
        os.replace(fresh, path)
        _sync(path.parent)
    except sqlite3.Error as exc:
        raise mapped_error(exc) from exc
    finally:
        discard_copies(path)
    return count


def discard_copies(path: Path) -> None:
    """Remove the remains of an interrupted `rekey` next to the database."""
    for end in ("rekey", "rekey-journal", "rekey-new", "rekey-new-journal"):
        path.with_name(f"{path.name}.{end}").unlink(missing_ok=True)


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    # SQLite uses an existing empty file with its mode.
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection.execute("VACUUM INTO ?", (str(target),))


def _reseal(
    connection: sqlite3.Connection,
    copy: sqlite3.Connection,
    old: Cipher | None,
    new: Cipher | None,
) -> int:
    """Seal the texts of the database for the copy; return the number of rows."""
    # The file is not read before it is complete.
    copy.execute("PRAGMA journal_mode=OFF")
    copy.execute("PRAGMA synchronous=OFF")
    source, target = SqliteTransaction(connection, old), SqliteTransaction(copy, new)
    counts: dict[str, int] = {}
    copy.execute("BEGIN")
    for sealed in SEALED:
        rows = connection.execute(sealed.select)
        changed = copy.executemany(sealed.update, resealed(sealed, rows, source, target))
        counts[sealed.table] = changed.rowcount
    # The index is not encrypted; without a key it is rebuilt at the next search.
    search.forget_all(target)
    copy.execute("DELETE FROM meta WHERE name = 'cipher'")
    mark_sealed(target, new)
    copy.execute("COMMIT")
    return sum(counts.values())


def _verify(fresh: Path) -> None:
    with closing(sqlite3.connect(fresh)) as connection:
        verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
    if verdict != "ok":
        raise StoreError(
            "the new copy failed verification ({verdict}); nothing was changed", verdict=verdict
        )
    _sync(fresh)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
