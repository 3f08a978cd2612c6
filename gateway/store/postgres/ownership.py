"""One Kore owns the data: a lock of the server, a number that each owner counts on, and a lease.

The lock ends with its connection, also where only the network failed. So the number decides: every
transaction reads it, and since all are serializable, none of an owner that another has taken the
place of can commit (PostgreSQL refuses one of two that read what the other writes).

A process that is stopped, or whose machine is cut off, keeps its lock for as long as the server
believes in its connection. So the owner says every few seconds that it lives, and one that has said
nothing for the length of a lease may be replaced: by the number, whatever it still holds. The time
is the server's.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from gateway.core.addresses.postgres import application_name, own_name
from gateway.store.errors import StoreInUse
from gateway.store.port import Row
from gateway.store.postgres.connection import END_CONNECTIONS
from gateway.store.postgres.errors import code_of
from gateway.store.postgres.lease import BEGIN, NOW, Fence
from gateway.store.server_watch import ServerWatch

# "kore" in ASCII.
_LOCK = 0x6B6F7265
_TRIES, _PAUSE_S = 20, 0.02
# Of a lease: two of its beats.
_REPEAT_SHARE = 0.4
_SERIALIZATION_FAILURE = "40001"
_SILENT = f"seen_at < {NOW} - %s::double precision"
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
    """Keep every other Kore out. With a `watch` an owner that has said nothing for `lease_s` is
    replaced. Raises `StoreInUse`."""
    # The server notices the end of a connection soon, not at once.
    if _lock_soon(connection):
        return
    if watch is None:
        raise _in_use(connection, place)
    silent = _silent_owner(connection, lease_s)
    # Behind the look: a pause of the server within it counts, too.
    watch.note()
    if silent is not None and not watch.covers_lease:
        # Where the server was away nobody could say anything: an owner that lives says so soon.
        time.sleep(lease_s * _REPEAT_SHARE)
        silent = _silent_owner(connection, lease_s)
    if silent is None:
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
        f"UPDATE owner SET epoch = epoch + 1, name = %s, seen_at = {NOW} RETURNING epoch",
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
    connection.execute(f"{END_CONNECTIONS}%s".encode(), (application_name(owner),))


def _is_locked_by(connection: "psycopg.Connection[Row]", owner: str) -> bool:
    return connection.execute(_HOLDER, (_LOCK, application_name(owner))).fetchone() is not None


def _replace_silent(connection: "psycopg.Connection[Row]", lease_s: float) -> bool:
    """Count on where the owner has said nothing for so long; of two that try it one succeeds."""
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
