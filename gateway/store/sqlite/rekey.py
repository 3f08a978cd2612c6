"""Another key for a whole database, or its first, or none: a copy that takes its place at once."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gateway.store.cipher import SEALED, Cipher
from gateway.store.errors import StoreError
from gateway.store.repositories.conversations import search
from gateway.store.sealing import key_mark, mark_sealed, resealed
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.errors import mapped
from gateway.store.sqlite.migrator import copies
from gateway.store.sqlite.transaction import SqliteTransaction, table_names


def is_sealed(path: Path) -> bool:
    """Whether the texts in this database are sealed. Raises `StoreError`."""
    try:
        with closing(sqlite3.connect(path, timeout=1)) as connection:
            return key_mark(SqliteTransaction(connection), table_names(connection)) is not None
    except sqlite3.Error as exc:
        raise mapped(exc) from exc


def rekey(
    path: Path, old: Cipher | None, new: Cipher | None, forget: Callable[[], None] = lambda: None
) -> int:
    """Seal all texts with `new` instead of `old`; returns how many there are.

    No other process may have the database open. If this is cut off, the file is the
    old one or the new one, whole; and where it is the new one, nothing is left of what was kept
    with the old key: copies of upgrades are deleted, and what else there is by `forget`, before
    the new file takes the old one's place. Deleted, not wiped off the disk. Raises `StoreError`;
    then the database has not changed.
    """
    work, fresh = (path.with_name(f"{path.name}.{end}") for end in ("rekey", "rekey-new"))
    discard_copies(path)
    try:
        with closing(connect(path, check=True, cipher=old)) as connection:
            _copy(connection, work)
            with closing(sqlite3.connect(work, isolation_level=None)) as copy:
                count = _reseal(connection, copy, old, new)
                # Anew once more: free pages and the gaps between rows still hold the old texts.
                _copy(copy, fresh)
            _verify(fresh)
            # A log left beside the file would be taken for the new file's.
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            if mode != "delete":
                raise StoreError("the database {path} is in use; nothing was changed", path=path)
        # Behind the swap a kill would leave them for good: a second run finds nothing to do.
        for copy_of_old in copies(path):
            copy_of_old.unlink()
        forget()
        os.replace(fresh, path)
        _sync(path.parent)
    except sqlite3.Error as exc:
        raise mapped(exc) from exc
    finally:
        discard_copies(path)
    return count


def discard_copies(path: Path) -> None:
    """Remove what a cut off `rekey` has left beside the database."""
    for end in ("rekey", "rekey-journal", "rekey-new", "rekey-new-journal"):
        path.with_name(f"{path.name}.{end}").unlink(missing_ok=True)


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    # SQLite takes an empty file as it is, with its mode.
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection.execute("VACUUM INTO ?", (str(target),))


def _reseal(
    connection: sqlite3.Connection,
    copy: sqlite3.Connection,
    old: Cipher | None,
    new: Cipher | None,
) -> int:
    """Seal anew in the copy what the database holds; returns how many rows that is."""
    # The file is not read before it is complete.
    copy.execute("PRAGMA journal_mode=OFF")
    copy.execute("PRAGMA synchronous=OFF")
    source, target = SqliteTransaction(connection, old), SqliteTransaction(copy, new)
    counts: dict[str, int] = {}
    copy.execute("BEGIN")
    for one in SEALED:
        rows = connection.execute(one.select)
        changed = copy.executemany(one.update, resealed(one, rows, source, target))
        counts[one.table] = changed.rowcount
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
