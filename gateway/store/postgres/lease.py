"""Lease of a process, without which it can store nothing.

Each transaction reads the row of its process, and a thread sends heartbeats. All transactions are
serializable, so a process that was declared dead by another can commit nothing: PostgreSQL rejects
one of two transactions that read what the other writes.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from gateway.store.errors import StoreError, StoreTakenOver
from gateway.store.port import Row
from gateway.store.postgres.errors import is_lost

# Longest pause between two answers, as a fraction of a lease; heartbeats are more frequent.
_PAUSE_SHARE = 0.4
_HAS_BOOTTIME = hasattr(time, "CLOCK_BOOTTIME")
log = logging.getLogger(__name__)

BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"
# The server's clock, in Unix time.
NOW = "extract(epoch FROM clock_timestamp())"
# Heartbeats per lease.
_BEATS = 5


class ServerWatch:
    """Record of the server's answers; call `note` for each.

    No owner can renew its lease while the server is unreachable, so only a process that has
    received answers for a whole lease knows that the owner is silent.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float] | None = None) -> None:
        self._lease_s, self._clock = lease_s, clock or boot_clock
        self._since = self._last_at = 0.0

    def note(self) -> None:
        now = self._clock()
        if now - self._last_at > self._lease_s * _PAUSE_SHARE:
            self._since = now
        self._last_at = now

    @property
    def covers_lease(self) -> bool:
        """True if the server has answered for a whole lease, without a long pause."""
        return self._last_at - self._since >= self._lease_s


def boot_clock() -> float:
    """Return seconds that also pass while a process or its machine is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOTTIME else time.monotonic()


def _do_nothing(connection: "psycopg.Connection[Row]") -> object:
    return None


@dataclass(frozen=True, slots=True)
class Fence:
    """Statements that check and renew the registration of a process.

    `begin` begins a transaction and reads `number`; it returns no row once the process was
    replaced. `beat` is the heartbeat, with the process's state if `has_state`; it changes no row
    once the process was replaced. `reconnect` is called for a new connection of the heartbeat.
    """

    number: int
    begin: str
    beat: str
    has_state: bool = False
    reconnect: Callable[["psycopg.Connection[Row]"], object] = _do_nothing


def begin(connection: "psycopg.Connection[Row]", fence: Fence) -> None:
    """Begin a transaction. Raises `StoreTakenOver` if another process has taken over."""
    cursor = connection.execute(fence.begin.encode())
    cursor.nextset()
    row = cursor.fetchone()
    if row is None or row[0] != fence.number:
        raise taken_over()


def taken_over() -> StoreError:
    return StoreTakenOver(
        "another Kore has taken over the database; this one can no longer store anything",
        hint="Restart it, if it is the one that should run.",
    )


class LeaseKeeper:
    """Sender of heartbeats on its `connection` until `close`.

    `when_replaced` is called once, in a separate thread. `state`, as JSON, is sent with the next
    heartbeat.
    """

    def __init__(
        self,
        fence: Fence,
        connection: "psycopg.Connection[Row]",
        connect: "Callable[[], psycopg.Connection[Row]]",
        lease_s: float,
        when_replaced: Callable[[], None],
    ) -> None:
        self.state = "{}"
        self._connection: psycopg.Connection[Row] | None = connection
        self._connect = connect
        self._fence = fence
        self._lease_s, self._pause_s = lease_s, lease_s / _BEATS
        self._held_until = boot_clock() + lease_s
        self._when_replaced = when_replaced
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-lease", daemon=True)
        self._thread.start()

    def is_held(self) -> bool:
        """Return whether no other process can have replaced this one.

        This is certain for the length of a lease after each heartbeat. The clock also runs while a
        process or its machine is stopped.
        """
        return boot_clock() < self._held_until

    def close(self) -> None:
        """Stop the heartbeats and close the connection, which releases its locks."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    # An old connection that the server considers alive may still hold the lock.
                    self._fence.reconnect(self._connection)
                sent_at = boot_clock()
                if not self._beat(self._connection):
                    self._when_replaced()
                    break
                self._held_until = sent_at + self._lease_s
            except psycopg.Error as exc:
                if self._connection is not None and is_lost(exc, self._connection):
                    self._connection.close()
                    self._connection = None
                log.debug("the lease of the database could not be renewed: %s", exc)
        if self._connection is not None:
            self._connection.close()

    def _beat(self, connection: "psycopg.Connection[Row]") -> bool:
        """Send a heartbeat; return False once another process has taken over.

        It conflicts with no transaction of this process, because they read only the number and the
        heartbeat is not serializable.
        """
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            values = (self.state,) if self._fence.has_state else None
            return connection.execute(self._fence.beat.encode(), values).rowcount == 1
