"""One Kore owns the data: a lock of the server, a number that each owner counts on, and a lease.

The lock ends with its connection, also where only the network failed. So the number decides: every
transaction reads it, and since all are serializable, none of an owner that another has taken the
place of can commit (PostgreSQL refuses one of two that read what the other writes).

A process that is stopped, or whose machine is cut off, keeps its lock for as long as the server
believes in its connection. So the owner says every few seconds that it lives, and one that has said
nothing for the length of a lease may be replaced: by the number, whatever it still holds. The time
is the server's.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from gateway.core.postgres_address import application_name, own_name
from gateway.store.errors import StoreError, StoreInUse, StoreTakenOver
from gateway.store.port import Row
from gateway.store.postgres.errors import code_of, is_lost

log = logging.getLogger(__name__)

# "kore" in ASCII.
_LOCK = 0x6B6F7265
BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT epoch FROM owner"
_NOW = "extract(epoch FROM clock_timestamp())"
# Of a lease: so often an owner says that it lives.
_BEATS = 5
_HAS_BOOTTIME = hasattr(time, "CLOCK_BOOTTIME")
_TRIES, _PAUSE_S = 20, 0.02
_SERIALIZATION_FAILURE = "40001"
_SILENT = f"seen_at < {_NOW} - %s::double precision"
# Each has the name of its process.
_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database() AND application_name = %s"
)
_HOLDER = (
    "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
    " AND granted AND classid = 0 AND objid = %s AND application_name = %s"
    " AND pg_locks.database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# What still locks the row is gone by the next try.
_LOCK_TIMEOUT = "SET lock_timeout = '2s'"


@dataclass(frozen=True, slots=True)
class DatabaseOwnership:
    """The number of an owner, and the connection that holds its lock."""

    epoch: int
    connection: "psycopg.Connection[Row]"


def lock_data(
    connection: "psycopg.Connection[Row]", place: str, lease_s: float | None = None
) -> None:
    """Keep every other Kore out. With `lease_s` an owner that has said nothing for so long is
    replaced. Raises `StoreInUse`."""
    # The server notices the end of a connection soon, not at once.
    if _lock_soon(connection):
        return
    silent = None if lease_s is None else _silent_owner(connection, lease_s)
    if lease_s is None or silent is None:
        raise _in_use(connection, place)
    # A process that was stopped in the middle of a transaction has locked what that has changed.
    _end_connections(connection, silent)
    if _lock_soon(connection):
        return
    # Without the right to end them it keeps its lock, and is replaced by the number alone. Not so
    # where another that replaces it was faster and has the lock now.
    if not _is_locked_by(connection, silent) or not _replace_silent(connection, lease_s):
        raise _in_use(connection, place)


def _lock_soon(connection: "psycopg.Connection[Row]") -> bool:
    for _ in range(_TRIES):
        if lock(connection):
            return True
        time.sleep(_PAUSE_S)
    return False


def count_on(connection: "psycopg.Connection[Row]") -> DatabaseOwnership:
    """Own the data from now on."""
    row = connection.execute(
        f"UPDATE owner SET epoch = epoch + 1, name = %s, seen_at = {_NOW} RETURNING epoch",
        (own_name(),),
    ).fetchone()
    assert row is not None, "the table `owner` has its one row from the first migration on"
    return DatabaseOwnership(int(row[0]), connection)


def stay(connection: "psycopg.Connection[Row]") -> None:
    """Own the data until the connection ends, without a lease: nobody replaces this one."""
    connection.execute("UPDATE owner SET seen_at = 'Infinity'")


def lock(connection: "psycopg.Connection[Row]") -> bool:
    """Whether the lock is this connection's now, until it ends."""
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()
    return bool(row and row[0])


def begin(connection: "psycopg.Connection[Row]", epoch: int) -> None:
    """Begin a transaction. Raises `StoreTakenOver` when another Kore has taken over."""
    cursor = connection.execute(BEGIN)
    cursor.nextset()
    row = cursor.fetchone()
    if row is None or row[0] != epoch:
        raise taken_over()


def taken_over() -> StoreError:
    return StoreTakenOver(
        "another Kore has taken over the database; this one can store nothing any more",
        hint="Restart it, if it is the one that should run.",
    )


class LeaseKeeper:
    """Holds the lock, and says that the owner lives, until `close`. `when_replaced` is called once,
    in a thread of its own."""

    def __init__(
        self,
        owner: DatabaseOwnership,
        connect: "Callable[[], psycopg.Connection[Row]]",
        lease_s: float,
        when_replaced: Callable[[], None],
    ) -> None:
        self._connection: psycopg.Connection[Row] | None = owner.connection
        self._connect = connect
        self._epoch = owner.epoch
        self._lease_s, self._pause_s = lease_s, lease_s / _BEATS
        self._held_until = _clock() + lease_s
        self._when_replaced = when_replaced
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-lease", daemon=True)
        self._thread.start()

    def is_held(self) -> bool:
        """Whether no other can have replaced this owner: it has said that it lives within the
        length of a lease. The clock goes on while a process or its machine is stopped."""
        return _clock() < self._held_until

    def close(self) -> None:
        """The lock is free once this returns."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    # Perhaps it is ours still, held by a connection that the server believes alive.
                    lock(self._connection)
                said_at = _clock()
                if not self._beat(self._connection):
                    self._when_replaced()
                    break
                self._held_until = said_at + self._lease_s
            except psycopg.Error as exc:
                if self._connection is not None and is_lost(exc, self._connection):
                    self._connection.close()
                    self._connection = None
                log.debug("the lease of the database could not be renewed: %s", exc)
        if self._connection is not None:
            self._connection.close()

    def _beat(self, connection: "psycopg.Connection[Row]") -> bool:
        """False once another owns the data. It conflicts with no transaction of ours: those read
        nothing but the number, and this one is none of the serializable ones."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            changed = connection.execute(
                f"UPDATE owner SET seen_at = {_NOW} WHERE epoch = %s", (self._epoch,)
            )
            return changed.rowcount == 1


def _clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOTTIME else time.monotonic()


def _silent_owner(connection: "psycopg.Connection[Row]", lease_s: float) -> str | None:
    """The name of the owner, if it has said nothing for so long."""
    try:
        query = f"SELECT name FROM owner WHERE {_SILENT}"
        row = connection.execute(query, (lease_s,)).fetchone()
    except psycopg.errors.UndefinedColumn:
        # Of a Kore that knew no lease.
        return None
    return None if row is None else str(row[0])


def _end_connections(connection: "psycopg.Connection[Row]", owner: str) -> None:
    # They may be of another user of the server, whose connections are not ours to end.
    with suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute(_CONNECTIONS, (application_name(owner),))


def _is_locked_by(connection: "psycopg.Connection[Row]", owner: str) -> bool:
    return connection.execute(_HOLDER, (_LOCK, application_name(owner))).fetchone() is not None


def _replace_silent(connection: "psycopg.Connection[Row]", lease_s: float) -> bool:
    """Count on where the owner has said nothing for so long; of two that try it one succeeds."""
    try:
        connection.execute(_LOCK_TIMEOUT)
        row = connection.execute(
            "UPDATE owner SET epoch = epoch + 1, name = %s, seen_at = "
            f"{_NOW} WHERE {_SILENT} RETURNING epoch",
            (own_name(), lease_s),
        ).fetchone()
        connection.execute("RESET lock_timeout")
    except psycopg.errors.LockNotAvailable:
        return False
    except psycopg.Error as exc:
        if code_of(exc) == _SERIALIZATION_FAILURE:
            return False
        raise
    return row is not None


def _in_use(connection: "psycopg.Connection[Row]", place: str) -> StoreInUse:
    with suppress(psycopg.errors.UndefinedTable):
        row = connection.execute("SELECT name FROM owner").fetchone()
        if row is not None:
            return StoreInUse(place, str(row[0]))
    return StoreInUse(place, "?")
