"""Ownership of the data by one Kore: an advisory lock, an epoch number and a lease.

The lock ends with its connection, even if only the network failed. The number is therefore
decisive: every transaction reads it, and since all are serializable, an owner that was replaced can
commit nothing (PostgreSQL rejects one of two transactions that read what the other writes). A
process that is stopped, or whose machine is cut off, keeps its lock as long as the server considers
its connection alive. The owner therefore sends a heartbeat every few seconds, and an owner that is
silent for the length of a lease may be replaced by incrementing the number, even if it still has
the lock. All times are the server's.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from gateway.core.addresses import application_name, own_name
from gateway.store.errors import StoreInUse
from gateway.store.port import Row
from gateway.store.postgres.connection import END_CONNECTIONS
from gateway.store.postgres.errors import code_of
from gateway.store.postgres.lease import BEGIN, NOW, Fence, ServerWatch

# "kore" in ASCII.
_LOCK = 0x6B6F7265
_TRIES, _PAUSE_S = 20, 0.02
# Fraction of a lease: two heartbeats.
_REPEAT_SHARE = 0.4
_SERIALIZATION_FAILURE = "40001"
_SILENT = f"seen_at < {NOW} - %s::double precision"
_HOLDER = (
    "SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
    " AND granted AND classid = 0 AND objid = %s AND application_name = %s"
    " AND pg_locks.database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# A connection that still locks the row will be gone at the next try.
_LOCK_TIMEOUT = "SET lock_timeout = '2s'"


@dataclass(frozen=True, slots=True)
class DatabaseOwnership:
    """Number of an owner, and the connection with its lock."""

    epoch: int
    connection: "psycopg.Connection[Row]"

    @property
    def fence(self) -> Fence:
        return Fence(
            number=self.epoch,
            begin=f"{BEGIN}; SELECT epoch FROM owner",
            beat=f"UPDATE owner SET seen_at = {NOW} WHERE epoch = {self.epoch:d}",
            reconnect=lock,
        )


def lock_data(
    connection: "psycopg.Connection[Row]",
    place: str,
    lease_s: float,
    watch: ServerWatch | None = None,
) -> None:
    """Lock out every other Kore.

    With a `watch`, an owner that is silent for `lease_s` is replaced. Raises `StoreInUse`.
    """
    # The server notices the end of a connection soon, but not at once.
    if _lock_soon(connection):
        return
    if watch is None:
        raise _in_use(connection, place)
    silent = _silent_owner(connection, lease_s)
    # Note the answer after the query, so that a pause of the server during the query counts, too.
    watch.note()
    if silent is not None and not watch.covers_lease:
        # No owner could send heartbeats while the server was unavailable; wait for the next one.
        time.sleep(lease_s * _REPEAT_SHARE)
        silent = _silent_owner(connection, lease_s)
    if silent is None:
        raise _in_use(connection, place)
    # A process that was stopped in the middle of a transaction has locked the rows that it changed.
    _end_connections(connection, silent)
    if _lock_soon(connection):
        return
    # Without the right to end its connections, the owner keeps its lock and is replaced only by the
    # number, unless another replacement was faster and already has the lock.
    if not _is_locked_by(connection, silent) or not _replace_silent(connection, lease_s):
        raise _in_use(connection, place)


def _lock_soon(connection: "psycopg.Connection[Row]") -> bool:
    for _ in range(_TRIES):
        if lock(connection):
            return True
        time.sleep(_PAUSE_S)
    return False


def count_on(connection: "psycopg.Connection[Row]") -> DatabaseOwnership:
    """Become the owner of the data by incrementing the number."""
    row = connection.execute(
        f"UPDATE owner SET epoch = epoch + 1, name = %s, seen_at = {NOW} RETURNING epoch",
        (own_name(),),
    ).fetchone()
    assert row is not None, "the table `owner` has its one row from the first migration on"
    return DatabaseOwnership(int(row[0]), connection)


def stay(connection: "psycopg.Connection[Row]") -> None:
    """Own the data until the connection ends, without a lease, so that no other process can replace
    it.
    """
    connection.execute("UPDATE owner SET seen_at = 'Infinity'")


def lock(connection: "psycopg.Connection[Row]") -> bool:
    """Acquire the lock until the connection ends; return whether this succeeded."""
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()
    return bool(row and row[0])


def _silent_owner(connection: "psycopg.Connection[Row]", lease_s: float) -> str | None:
    """Return the name of the owner if it has been silent for `lease_s`."""
    try:
        query = f"SELECT name FROM owner WHERE {_SILENT}"
        row = connection.execute(query, (lease_s,)).fetchone()
    except psycopg.errors.UndefinedColumn:
        # The table comes from a Kore without leases.
        return None
    return None if row is None else str(row[0])


def _end_connections(connection: "psycopg.Connection[Row]", owner: str) -> None:
    connection.execute(f"{END_CONNECTIONS}%s".encode(), (application_name(owner),))


def _is_locked_by(connection: "psycopg.Connection[Row]", owner: str) -> bool:
    return connection.execute(_HOLDER, (_LOCK, application_name(owner))).fetchone() is not None


def _replace_silent(connection: "psycopg.Connection[Row]", lease_s: float) -> bool:
    """Replace an owner that is silent for `lease_s`; if two processes try, only one succeeds."""
    try:
        connection.execute(_LOCK_TIMEOUT)
        row = connection.execute(
            "UPDATE owner SET epoch = epoch + 1, name = %s, seen_at = "
            f"{NOW} WHERE {_SILENT} RETURNING epoch",
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
