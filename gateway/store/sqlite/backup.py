"""Backups of a SQLite database: verified copies and their restoration."""

import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from agent.records import frozen
from agent.security.files.folder_tree import remove_folder
from gateway.store.errors import StoreError
from gateway.store.repositories.execution import restored_backup
from gateway.store.schema import BASELINE, too_old
from gateway.store.sqlite.migrator import FOLDER, SCHEMA
from gateway.store.sqlite.transaction import SqliteTransaction

log = logging.getLogger(__name__)

# Tables whose rows are counted for people.
_COUNTED = {
    "conversations": "session",
    "messages": "message",
    "received": "inbox",
    "sent": "outbox",
}


@frozen
class BackupSummary:
    """Contents of a complete copy; `schema` is the number of its newest migration."""

    schema: int
    sealed: bool
    counts: dict[str, int]


def read_back(path: Path) -> BackupSummary:
    """Verify a copy and return its contents.

    Raises `StoreError` if the copy is damaged, newer, too old or not a Kore database.
    """
    try:
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as copy:
            verdict = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if verdict != "ok":
                raise StoreError("{path} is damaged: {verdict}", path=path, verdict=verdict)
            tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_schema")}
            if "inbox" not in tables:
                raise StoreError("{path} is not a Kore database", path=path)
            version = copy.execute("PRAGMA user_version").fetchone()[0]
            if version < BASELINE:
                raise too_old(path, version)
            counts = {
                name: copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for name, table in _COUNTED.items()
            }
            mark = copy.execute("SELECT 1 FROM meta WHERE name = 'cipher'").fetchone()
    except sqlite3.Error as exc:
        raise StoreError(
            "{path} is not a complete database: {reason}", path=path, reason=exc
        ) from exc
    if version > SCHEMA.newest:
        raise StoreError(
            "{path} was created by a newer Kore (schema {version})",
            path=path,
            version=version,
            hint="Install the newer version.",
        )
    return BackupSummary(version, mark is not None, counts)


def take(path: Path, target: Path) -> None:
    """Copy a snapshot of a database without owning it. Raises `StoreError`."""
    try:
        os.close(_private(target))
    except OSError as exc:
        raise StoreError(
            "cannot write the backup {target}: {reason}", target=target, reason=exc.strerror
        ) from exc
    try:
        uri = f"file:{quote(str(path))}?mode=rw"
        with (
            closing(sqlite3.connect(uri, uri=True)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as exc:
        target.unlink()
        raise StoreError("{path} cannot be copied: {reason}", path=path, reason=exc) from exc


def put_in_place(copy: Path, path: Path) -> Path | None:
    """Replace the database at `path` with `copy`; return the path of a backup of the old database.

    No process may have it open. After a kill at any moment, `path` is either the complete old
    database or the complete new one. If it raises `StoreError`, nothing was changed.
    """
    fresh = path.with_name(f"{path.name}.restore")
    try:
        fresh.unlink(missing_ok=True)
        with copy.open("rb") as source, open(_private(fresh), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
        mark_restored(fresh)
        _sync(fresh)
        read_back(fresh)
        aside = _set_aside(path) if path.exists() else None
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        fresh.replace(path)
        _sync(path.parent)
    except (OSError, sqlite3.Error) as exc:
        raise StoreError("the database could not be replaced: {reason}", reason=exc) from exc
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    return aside


def discard_unfinished(path: Path, home: Path, folders: Sequence[Path]) -> None:
    """Finish or remove the remains of a killed restore of the database and the folders.

    No process may have the database open.
    """
    remains = list(home.glob(".restore-*"))
    for folder in folders:
        halves = sorted(folder.parent.glob(f".{folder.name}.restore-*"))
        if halves and not folder.exists():
            # The old folder was already moved aside, so the new one is complete.
            halves.pop().rename(folder)
        remains += halves
    for remnant in remains:
        if not remove_folder(remnant):
            log.warning(
                "%s is left over from an interrupted restore and cannot be removed", remnant
            )
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}.restore{end}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mark_restored(fresh: Path) -> None:
    """Mark a copy of the database as a restored backup."""
    with closing(sqlite3.connect(fresh)) as copy, copy:
        restored_backup.mark(SqliteTransaction(copy), time.time())


def _set_aside(path: Path) -> Path:
    """Copy the database with its write-ahead log; return the path of the copy."""
    # An intact database absorbs its log; a damaged one keeps the log as a file.
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1)) as old:
        old.execute("PRAGMA journal_mode=DELETE")
    folder = path.with_name(FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    aside = folder / f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.db"
    for end in ("", "-wal"):
        part = path.with_name(path.name + end)
        if part.exists():
            with part.open("rb") as source, open(_private(Path(f"{aside}{end}")), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                os.fsync(target.fileno())
    return aside


def _private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
