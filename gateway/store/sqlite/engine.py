"""Store on SQLite: a single connection, owned by one thread.

Work is queued as functions; each is one transaction. Functions that arrive while a transaction runs
share the next one, so that a burst needs one fsync instead of many.
"""

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from contextvars import copy_context
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from gateway.core.tasks import run_to_completion
from gateway.store.cipher import Cipher
from gateway.store.errors import (
    RESTORE,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    catalogue_text,
)
from gateway.store.port import Transaction
from gateway.store.repositories import active_channels
from gateway.store.sealing import BrokenSeal, check_key, mark_sealed, report_broken
from gateway.store.sqlite.migrator import copies, require_supported, upgrade
from gateway.store.sqlite.transaction import SqliteTransaction, table_names

P = ParamSpec("P")
T = TypeVar("T")

MAX_GROUP = 64
BACKUP_PAGES = 256
_MAX_WAITING = 20_000
# Timeout for a file that another program has locked.
_LOCK_TIMEOUT_S = 1.0
_LOCKING = "PRAGMA locking_mode=EXCLUSIVE"
_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cache_size=-2000",
)
# Low byte of SQLite's codes; the other bytes give details (https://sqlite.org/rescode.html).
_RETRYABLE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(slots=True)
class StoreWork:
    # Takes a `SqliteTransaction`, or the connection itself if it runs `alone`.
    work: Callable[[Any], Any]
    future: asyncio.Future[Any]
    alone: bool = False  # runs outside a transaction
    outcome: Any = None
    error: BaseException | None = None
    actions: Sequence[Callable[[], None]] = ()
    broken: Sequence[BrokenSeal] = ()


class SqliteStore:
    """Implements `gateway.store.port.Store`: run work with `transact`; `close` it at the end."""

    def __init__(
        self, connection: sqlite3.Connection, file: Path, cipher: Cipher | None = None
    ) -> None:
        self.file, self.folder = file, file.parent
        # Set permanently once the file is found to be damaged.
        self.damage: StoreCorrupt | None = None
        self._connection = connection
        self._cipher = cipher
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self._closed = False
        # Rows that are already in the audit log.
        self._reported: set[BrokenSeal] = set()
        self._jobs: queue.Queue[StoreWork] = queue.Queue(maxsize=_MAX_WAITING)
        self._thread = threading.Thread(target=self._serve, name="database", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls, path: Path, *, check: bool = False, cipher: Cipher | None = None
    ) -> "SqliteStore":
        """Open the database, and upgrade an older one. Raises `StoreError` if it cannot be used.

        `check` verifies the whole file first, for use after an unclean exit. `cipher` contains the
        key of the stored texts.
        """
        return cls(connect(path, check=check, cipher=cipher), path, cipher)

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the function's result once its transaction is on disk; an error stores nothing.

        A cancelled caller still waits for its transaction to end. Raises `StoreError` for errors of
        the database (a full disk, a damaged file, after `close`), and every error that `work`
        raises.
        """
        # Run in the caller's context, which sets the language (`agent.language`).
        run_in_context = copy_context().run
        job = self._enqueue(lambda tx: run_in_context(work, tx, *args, **kwargs))
        return await run_to_completion(job)

    def is_held(self) -> bool:
        return True

    async def until_held(self) -> None:
        return

    async def until_replaced(self) -> None:
        await asyncio.Event().wait()

    async def backup(self, target: Path) -> int:
        """Copy the database to a new file and return its size in bytes; other work continues.

        Raises `StoreError` if the file exists or the copy fails its verification.
        """
        job = self._enqueue(lambda connection: self._copy(connection, target), alone=True)
        return await run_to_completion(job)

    async def rewrite(self) -> None:
        """Rewrite the whole file, so that it contains no deleted data. Nothing else runs meanwhile.

        Raises `StoreError`, for example without enough free space for a second copy of the data.
        """
        await run_to_completion(self._enqueue(_rewrite, alone=True))

    def upgrade_copies(self) -> Sequence[Path]:
        """Return the copies of the file that upgrades have made, oldest first."""
        return copies(self.file)

    async def close(self) -> None:
        """Finish the queued work, then close the file."""
        if self._closed:
            return
        last = self._enqueue(lambda _: self._closing.set(), alone=True)
        self._closed = True
        await run_to_completion(last)
        await asyncio.to_thread(self._thread.join)

    def _enqueue(self, work: Callable[[Any], T], *, alone: bool = False) -> "asyncio.Future[T]":
        if self._closed:
            raise StoreClosed
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            self._jobs.put_nowait(StoreWork(work, future, alone))
        except queue.Full:
            raise StoreBusy("the database is overloaded") from None
        return future

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._serve_group(self._jobs.get())
        self._connection.close()

    def _serve_group(self, first: StoreWork) -> None:
        """Run a job, together with the jobs queued after it so far."""
        jobs = [first]
        while len(jobs) < MAX_GROUP and not self._jobs.empty():
            jobs.append(self._jobs.get_nowait())
        for alone, run in groupby(jobs, key=lambda job: job.alone):
            group = list(run)
            if alone:
                for job in group:
                    self._attempt(job)
            else:
                self._transact(group)
            self._loop.call_soon_threadsafe(_resolve, group)

    def _transact(self, jobs: list[StoreWork]) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                connection.execute("SAVEPOINT job")
                self._attempt(job)
                if job.error is not None:
                    connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            broken = {seal for job in jobs for seal in job.broken} - self._reported
            if broken:
                report_broken(SqliteTransaction(connection, self._cipher), broken)
            connection.execute("COMMIT")
            self._reported |= broken
        except sqlite3.Error as exc:
            # The transaction as a whole failed (disk full, I/O error), and none of it is stored.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(jobs) == 1:
                jobs[0].error = jobs[0].error or self._mapped(exc)
                return
            # A job that is too large for the disk must not fail the other jobs.
            for job in jobs:
                job.error = None
                self._transact([job])

    def _attempt(self, job: StoreWork) -> None:
        try:
            if job.alone:
                job.outcome = job.work(self._connection)
            else:
                self._run(job)
        except sqlite3.Error as exc:
            job.error = self._mapped(exc)
        except BaseException as exc:  # noqa: BLE001 - handed to the caller, who awaits it
            job.error = exc

    def _run(self, job: StoreWork) -> None:
        """Run a job and store its result, its actions after the commit and broken rows in it."""
        transaction = SqliteTransaction(self._connection, self._cipher)
        job.actions, job.broken = transaction.actions, transaction.broken
        job.outcome = job.work(transaction)

    def _mapped(self, error: sqlite3.Error) -> StoreError:
        store_error = mapped_error(error, self.file)
        if isinstance(store_error, StoreCorrupt):
            self.damage = store_error
        return store_error

    def _copy(self, connection: sqlite3.Connection, target: Path) -> int:
        """Write a backup in steps; other work on the database runs between two steps."""
        if target.exists():
            raise StoreError(
                "{target} already exists; a backup never overwrites a file", target=target
            )
        if not target.parent.is_dir():
            raise StoreError("the folder {parent} does not exist", parent=target.parent)

        def between(status: int, remaining: int, total: int) -> None:
            while not self._jobs.empty():
                self._serve_group(self._jobs.get_nowait())

        try:
            target.touch(0o600, exist_ok=False)
        except OSError as exc:
            raise StoreError(
                "cannot write the backup {target}: {reason}", target=target, reason=exc.strerror
            ) from exc
        try:
            with closing(sqlite3.connect(target)) as copy:
                connection.backup(copy, pages=BACKUP_PAGES, progress=between)
                verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
        except sqlite3.Error as exc:
            verdict = str(exc)
        if verdict != "ok":
            target.unlink()
            raise StoreError(
                "the backup {target} failed verification ({verdict}) and was removed",
                target=target,
                verdict=verdict,
            )
        return target.stat().st_size


def _rewrite(connection: sqlite3.Connection) -> None:
    # The temporary file has no name, so its remains cannot be opened. In memory, it would be as
    # large as the database.
    _, _, file = connection.execute("PRAGMA database_list").fetchone()
    folder = str(Path(file).parent).replace("'", "''")
    tx = SqliteTransaction(connection)
    # Temporary tables are dropped when their location changes.
    channels, modes = active_channels.load_settings(tx)
    connection.execute(f"PRAGMA temp_store_directory='{folder}'")
    connection.execute("PRAGMA temp_store=FILE")
    connection.execute("PRAGMA secure_delete=ON")
    try:
        connection.execute("VACUUM")
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("PRAGMA temp_store=DEFAULT")
        connection.execute("PRAGMA temp_store_directory=''")
        active_channels.install(tx, channels, modes)
    if busy:
        raise StoreError("could not empty the write-ahead log")


def _resolve(jobs: list[StoreWork]) -> None:
    for job in jobs:
        if job.error is None:
            for action in job.actions:
                action()
        if job.future.cancelled():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.outcome)


def connect(path: Path, *, check: bool = False, cipher: Cipher | None = None) -> sqlite3.Connection:
    """Return an open connection to an up-to-date database. Raises `StoreError`."""
    # SQLite creates its other files with the same mode.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        connection = sqlite3.connect(
            path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as stack:
            stack.callback(connection.close)
            _prepare(connection, path, check, cipher)
            stack.pop_all()
    except sqlite3.OperationalError as exc:
        if "locked" in str(exc):
            raise StoreError(
                "the database {path} is in use by another program",
                path=path,
                hint="Close that program, for example a database browser or a backup tool.",
            ) from exc
        raise StoreError(
            "cannot open the database {path}: {reason}", path=path, reason=exc, hint=RESTORE
        ) from exc
    except sqlite3.DatabaseError as exc:
        raise StoreCorrupt(path, str(exc)) from exc
    path.chmod(0o600)
    return connection


def _prepare(
    connection: sqlite3.Connection, path: Path, check: bool, cipher: Cipher | None
) -> None:
    connection.execute(_LOCKING)
    # Check before anything is written: a rejected database stays unchanged.
    require_supported(connection, path)
    tx = SqliteTransaction(connection)
    check_key(tx, path, cipher, table_names(connection))
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    if check:
        verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    upgrade(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    mark_sealed(tx, cipher)
    connection.execute("COMMIT")
    active_channels.install(tx)


def mapped_error(error: sqlite3.Error, file: Path | None = None) -> StoreError:
    """Convert an error of SQLite to an error of the store about the database in `file`."""
    text = str(error)
    # Errors that Python's module raises itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreBusy(
            "the disk is full: nothing more can be stored", hint="Free some disk space."
        )
    if code in _BROKEN:
        return StoreCorrupt(file, text)
    kind = StoreBusy if code in _RETRYABLE else StoreError
    return kind(catalogue_text("the database returned an error: {reason}"), reason=text)
