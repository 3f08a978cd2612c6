"""A process of Kore may store something only as long as it counts: each transaction reads the row
that says so, and a thread says now and then that the process lives.

All transactions are serializable, so none of a process that another has declared dead can commit:
PostgreSQL refuses one of two that read what the other writes.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from gateway.store.errors import StoreError, StoreTakenOver
from gateway.store.port import Row
from gateway.store.postgres.errors import is_lost
from gateway.store.server_watch import boot_clock

log = logging.getLogger(__name__)

BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"
# The server's clock, in Unix time.
NOW = "extract(epoch FROM clock_timestamp())"
# Of a lease: so often a process says that it lives.
_BEATS = 5


def _nothing(connection: "psycopg.Connection[Row]") -> object:
    return None


@dataclass(frozen=True, slots=True)
class Fence:
    """`begin` begins a transaction and reads `number`, or nothing once the process does not count
    any more; `beat` says that it lives, and with `has_state` what it says of itself, and changes no
    row then. `reconnect` is for the connection that beats."""

    number: int
    begin: str
    beat: str
    has_state: bool = False
    reconnect: Callable[["psycopg.Connection[Row]"], object] = _nothing


def begin(connection: "psycopg.Connection[Row]", fence: Fence) -> None:
    """Begin a transaction. Raises `StoreTakenOver` when another process has taken over."""
    cursor = connection.execute(fence.begin.encode())
    cursor.nextset()
    row = cursor.fetchone()
    if row is None or row[0] != fence.number:
        raise taken_over()


def taken_over() -> StoreError:
    return StoreTakenOver(
        "another Kore has taken over the database; this one can store nothing any more",
        hint="Restart it, if it is the one that should run.",
    )


class LeaseKeeper:
    """Says that the process lives, and keeps its `connection`, until `close`. `when_replaced` is
    called once, in a thread of its own. `state`, as JSON, goes out with the next beat."""

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
        """Whether no other can have replaced this process: it has said that it lives within the
        length of a lease. The clock goes on while a process or its machine is stopped."""
        return boot_clock() < self._held_until

    def close(self) -> None:
        """The connection is closed, and with it its locks are free, once this returns."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s):
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    # Perhaps it is ours still, held by a connection that the server believes alive.
                    self._fence.reconnect(self._connection)
                said_at = boot_clock()
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
        """False once another has taken over. It conflicts with no transaction of ours: those read
        nothing but the number, and this one is none of the serializable ones."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            values = (self.state,) if self._fence.has_state else None
            return connection.execute(self._fence.beat.encode(), values).rowcount == 1
