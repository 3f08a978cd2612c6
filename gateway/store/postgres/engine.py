"""Store on PostgreSQL: several connections, each owned by a thread.

Transactions are serializable, and retried after a conflict. While the server is unreachable,
transactions are retried as well: the caller waits, and nothing is confirmed. If a connection breaks
during a commit, the next connection checks whether the transaction was stored.
"""

import asyncio
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from gateway.core.addresses import public_address
from gateway.core.tasks import run_to_completion
from gateway.store.cipher import Cipher
from gateway.store.errors import (
    SealBroken,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreTakenOver,
)
from gateway.store.port import Row, Transaction
from gateway.store.postgres import commit_mark, ownership, worker_table
from gateway.store.postgres.commit_mark import CommitMark
from gateway.store.postgres.conflict_limiter import ConflictLimiter
from gateway.store.postgres.connection import LONGEST_IDLE_S, connect, first_connection
from gateway.store.postgres.errors import RERUN, code_of, is_lost, mapped, run_alone
from gateway.store.postgres.lease import Fence, LeaseKeeper, ServerWatch, begin
from gateway.store.postgres.migrator import table_names, upgrade
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories import active_channels
from gateway.store.sealing import BrokenSeal, check_key, mark_sealed, report_broken

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)

# Writes everything that a transaction sees to a new SQLite file.
WriteCopy = Callable[[Transaction, Path], None]

_MAX_WAITING = 20_000
_MAX_RERUNS = 50
_RERUN_S, _LONGEST_RERUN_S = 0.002, 0.5
# Interval for checking whether an expired lease was renewed.
_POLL_INTERVAL_S = 0.05
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0
_NO_IDLE_LIMIT = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Options of the engine.

    `connections` is the number of connections that work at once. An owner that is silent for
    `lease_s` may be replaced by a process that has a `watch` on the server. Workers continue to run
    with an owner that `has_workers`. Locks of a process that is stopped within a transaction are
    released after `idle_s`.
    """

    connections: int = 4
    lease_s: float = 15.0
    watch: ServerWatch | None = None
    has_workers: bool = False
    idle_s: float = 5.0


@dataclass(slots=True)
class _PendingWork:
    work: Callable[[Transaction], Any]
    future: asyncio.Future[Any]
    outcome: Any = None
    error: BaseException | None = None
    actions: Sequence[Callable[[], None]] = ()


class _Unsure(Exception):
    """The connection broke during the commit of the transaction with this mark."""

    def __init__(self, mark: CommitMark) -> None:
        super().__init__(mark)
        self.mark = mark


class PostgresStore:
    """Implements `gateway.store.port.Store`: run work with `transact`; `close` it at the end."""

    # Never set: the server checks its own files.
    damage: StoreCorrupt | None = None

    def __init__(  # noqa: PLR0913 - values passed by name from `open` and `join`
        self,
        address: str,
        folder: Path,
        fence: Fence,
        connection: "psycopg.Connection[Row]",
        *,
        first_slot: int = 0,
        cipher: Cipher | None,
        options: PostgresOptions,
        write_copy: WriteCopy,
    ) -> None:
        self.folder, self._write_copy = folder, write_copy
        self._address, self._fence, self._cipher = address, fence, cipher
        self._loop = asyncio.get_running_loop()
        self._replaced = asyncio.Event()
        self.lease = LeaseKeeper(
            fence, connection, partial(connect, address), options.lease_s, self._note_replaced
        )
        self._limiter = ConflictLimiter(options.connections)
        self._idle_s = options.idle_s
        # Rows that are already in the audit log.
        self._reported: set[BrokenSeal] = set()
        self._closed = False
        self._closing = threading.Event()
        self._lost = threading.Event()  # Logged once for all connections
        self._jobs: queue.Queue[_PendingWork | None] = queue.Queue(maxsize=_MAX_WAITING)
        self._threads = [
            threading.Thread(target=self._serve, args=(slot,), name=f"database-{slot}", daemon=True)
            for slot in range(first_slot, first_slot + options.connections)
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def open(
        cls,
        address: str,
        folder: Path,
        *,
        write_copy: WriteCopy,
        cipher: Cipher | None = None,
        options: PostgresOptions | None = None,
    ) -> "PostgresStore":
        """Open, create or upgrade the tables, and take ownership of the data.

        `write_copy` writes everything that a transaction sees to a new file. Raises `StoreError`,
        and `StoreInUse` if another Kore owns the data.
        """
        options = options or PostgresOptions()
        place = public_address(address)
        with first_connection(address) as connection:
            # Lock first: the tables of a running Kore must not be upgraded.
            ownership.lock_data(connection, place, options.lease_s, options.watch)
            tx = PostgresTransaction(connection)

            def prepare() -> None:
                # Check before anything is written: a wrong key changes nothing.
                check_key(tx, place, cipher, table_names(tx))
                upgrade(tx, place)

            def begin_owner() -> None:
                commit_mark.add_rows(connection, 0, options.connections)
                worker_table.begin_owner(connection, keeps=options.has_workers)
                mark_sealed(tx, cipher)
                if not options.has_workers:
                    # Workers that still run take only the work that the previous owner left to
                    # them.
                    active_channels.limit(tx, active_channels.ALL)
                    active_channels.set_queues(tx, {})

            run_alone(connection, prepare)
            owner = run_alone(connection, lambda: ownership.count_on(connection))
            run_alone(connection, begin_owner)
        return cls(
            *(address, folder, owner.fence, owner.connection),
            cipher=cipher,
            options=options,
            write_copy=write_copy,
        )

    async def transact(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run `work` as the port defines; the caller waits while the server is unavailable."""
        speak = copy_context().run
        job = self._enqueue(lambda tx: speak(work, tx, *args, **kwargs))
        return await run_to_completion(job)

    async def backup(self, target: Path) -> int:
        """Copy a snapshot of all data to a new SQLite file; return its size in bytes.

        Raises `StoreError` if the file exists.
        """
        part = target.with_name(f"{target.name}.part")

        def copy(tx: Transaction) -> int:
            if target.exists():
                raise StoreError(
                    "{target} already exists; a backup never overwrites a file", target=target
                )
            part.unlink(missing_ok=True)  # Left by an attempt that met a conflict
            # The file is written within the transaction.
            tx.one(_NO_IDLE_LIMIT)
            try:
                self._write_copy(tx, part)
                size_bytes = part.stat().st_size
                # The transaction writes nothing to the database, so its commit cannot fail after
                # this.
                part.rename(target)
            finally:
                part.unlink(missing_ok=True)
            return size_bytes

        return await self.transact(copy)

    def is_held(self) -> bool:
        return self.lease.is_held()

    async def until_held(self) -> None:
        # The lease expires by the clock, and a thread renews it.
        while not self.is_held():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def until_replaced(self) -> None:
        await self._replaced.wait()

    def _note_replaced(self) -> None:
        self._loop.call_soon_threadsafe(self._replaced.set)

    async def rewrite(self) -> None:
        """Rewrite all tables, so that they contain no deleted data.

        The server's log and its backups are the responsibility of its administrator.
        """
        await asyncio.to_thread(self._vacuum)

    def upgrade_copies(self) -> Sequence[Path]:
        return ()

    async def close(self) -> None:
        """Finish the queued work, then close the connections.

        Work waiting for an unreachable server fails.
        """
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        for _ in self._threads:
            await asyncio.to_thread(self._jobs.put, None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(self.lease.close)

    def _enqueue(self, work: Callable[[Transaction], T]) -> "asyncio.Future[T]":
        if self._closed:
            raise StoreClosed
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            self._jobs.put_nowait(_PendingWork(work, future))
        except queue.Full:
            raise StoreBusy("the database is overloaded") from None
        return future

    def _serve(self, slot: int) -> None:
        """Run jobs in one thread with its own connection."""
        connection: psycopg.Connection[Row] | None = None
        marks = (CommitMark(slot, self._fence.number, number) for number in count(1))
        while (job := self._jobs.get()) is not None:
            connection = self._finish(job, connection, marks)
            self._loop.call_soon_threadsafe(_resolve, job)
        if connection is not None:
            connection.close()

    def _finish(
        self,
        job: _PendingWork,
        connection: "psycopg.Connection[Row] | None",
        marks: Iterator[CommitMark],
    ) -> "psycopg.Connection[Row] | None":
        """Run the work until it is stored or refused; returns the connection for the next job."""
        unsure: CommitMark | None = None
        wait_s, idle_s = _FIRST_WAIT_S, self._idle_s
        while True:
            try:
                if connection is None:
                    connection = connect(self._address, idle_s)
                if unsure is None:
                    self._transact(job, connection, marks)
                elif not unsure.is_stored(connection):
                    unsure = None
                    continue
                self._lost.clear()
                return connection
            except _Unsure as exc:
                unsure = exc.mark
            except StoreError as exc:
                if isinstance(exc, StoreTakenOver):
                    self._note_replaced()
                job.error = exc
                return connection
            except psycopg.Error as exc:
                if connection is not None and not is_lost(exc, connection):
                    job.error = mapped(exc)
                    return connection
                self._log_lost_connection(exc)
            if connection is not None:
                connection.close()
                connection = None
            if self._closing.wait(wait_s):
                job.error = StoreBusy("the database cannot be reached")
                return None
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            # The last attempt may only have been slow.
            idle_s = min(2 * idle_s, LONGEST_IDLE_S)

    def _transact(
        self,
        job: _PendingWork,
        connection: "psycopg.Connection[Row]",
        marks: Iterator[CommitMark],
    ) -> None:
        """Run the job's transaction, again after a conflict.

        Raises `_Unsure`, `StoreError` and `psycopg.Error`; an error of the work itself is stored in
        the job.
        """
        for attempt in range(_MAX_RERUNS):
            job.error = None
            broken: Sequence[BrokenSeal] = ()
            began = time.monotonic()
            try:
                with self._limiter.admitted():
                    begin(connection, self._fence)
                    tx = PostgresTransaction(connection, self._cipher)
                    broken = tx.broken
                    job.outcome = job.work(tx)
                    job.actions = tx.actions
                    new = set(broken) - self._reported
                    report_broken(tx, new)
                    _commit(connection, next(marks))
                self._reported |= new
                self._limiter.note_success()
                return
            except psycopg.Error as exc:
                if is_lost(exc, connection):
                    raise
                _roll_back(connection)
                if code_of(exc) not in RERUN or attempt == _MAX_RERUNS - 1:
                    raise
                self._limiter.note_conflict()
            except SealBroken:
                _roll_back(connection)
                self._report(connection, broken, marks)
                raise
            except StoreError:
                _roll_back(connection)
                raise
            except _Unsure:
                raise
            except BaseException as exc:  # noqa: BLE001 - handed to the caller, who awaits it
                _roll_back(connection)
                self._report(connection, broken, marks)
                job.error = exc
                return
            # Other transactions take about as long as this one: a sooner retry would meet them
            # again.
            elapsed_s = max(_RERUN_S, time.monotonic() - began)
            pause_s = min(_LONGEST_RERUN_S, elapsed_s * 2 ** min(attempt, 6))
            self._closing.wait(random.uniform(0, pause_s))  # noqa: S311 - jitter

    def _report(
        self,
        connection: "psycopg.Connection[Row]",
        broken: Iterable[BrokenSeal],
        marks: Iterator[CommitMark],
    ) -> None:
        """Audit the changed rows that a rolled-back transaction has read."""
        new = set(broken) - self._reported
        if not new:
            return
        try:
            begin(connection, self._fence)
            report_broken(PostgresTransaction(connection, self._cipher), new)
            _commit(connection, next(marks))
        except (psycopg.Error, StoreError, _Unsure) as exc:
            # The next transaction that reads these rows reports them.
            _roll_back(connection)
            log.error(
                "the audit entry about changed rows could not be stored: %s", str(exc).strip()
            )
            return
        self._reported |= new

    def _vacuum(self) -> None:
        try:
            with connect(self._address) as connection:
                connection.execute("VACUUM FULL")
        except psycopg.Error as exc:
            raise mapped(exc) from exc

    def _log_lost_connection(self, error: psycopg.Error) -> None:
        if not self._lost.is_set():
            self._lost.set()
            log.warning("the database cannot be reached; waiting: %s", str(error).strip())


def _commit(connection: "psycopg.Connection[Row]", mark: CommitMark) -> None:
    """Commit. Raises `_Unsure` if the connection broke and the outcome is unknown."""
    try:
        has_changes = mark.write(connection)
    except psycopg.errors.InFailedSqlTransaction:
        # The server stores nothing after a failed statement, even if its error was caught.
        raise StoreError(
            "the database rolled back: a statement of the transaction had failed"
        ) from None
    try:
        connection.execute("COMMIT")
    except psycopg.Error as exc:
        if has_changes and is_lost(exc, connection):
            raise _Unsure(mark) from exc
        raise


def _roll_back(connection: "psycopg.Connection[Row]") -> None:
    # A broken connection rolls back automatically, and is noticed at its next use.
    with suppress(psycopg.Error):
        connection.execute("ROLLBACK")


def _resolve(job: _PendingWork) -> None:
    if job.error is None:
        for action in job.actions:
            action()
    if job.future.cancelled():
        return
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.outcome)
