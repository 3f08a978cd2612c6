"""One Kore owns the data: a lock of the server, and a number that each owner counts on.

The lock ends with its connection, also where only the network failed. So the number decides: every
transaction reads it, and since all are serializable, none of an owner that another has taken the
place of can commit (PostgreSQL refuses one of two that read what the other writes).
"""

import os
import socket
from dataclasses import dataclass

import psycopg

from gateway.store.errors import StoreError
from gateway.store.port import Row

# "kore" in ASCII.
_LOCK = 0x6B6F7265
BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT epoch FROM owner"


@dataclass(frozen=True, slots=True)
class DatabaseOwnership:
    """The number of an owner, and the connection that holds its lock."""

    epoch: int
    connection: "psycopg.Connection[Row]"


def own_name() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def take(connection: "psycopg.Connection[Row]", place: str) -> DatabaseOwnership:
    """Own the data from now on. Raises `StoreError` where another does."""
    if not lock(connection):
        row = connection.execute("SELECT name FROM owner").fetchone()
        raise StoreError(
            "the database {path} is in use by Kore on {owner}",
            path=place,
            owner=row[0] if row else "?",
            hint="Stop that one first.",
        )
    row = connection.execute(
        "UPDATE owner SET epoch = epoch + 1, name = %s RETURNING epoch", (own_name(),)
    ).fetchone()
    assert row is not None, "the table `owner` has its one row from the first migration on"
    return DatabaseOwnership(int(row[0]), connection)


def lock(connection: "psycopg.Connection[Row]") -> bool:
    """Whether the lock is this connection's now, until it ends."""
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()
    return bool(row and row[0])


def begin(connection: "psycopg.Connection[Row]", epoch: int) -> None:
    """Begin a transaction. Raises `StoreError` when another Kore has taken over."""
    cursor = connection.execute(BEGIN)
    cursor.nextset()
    row = cursor.fetchone()
    if row is None or row[0] != epoch:
        raise StoreError(
            "another Kore has taken over the database; this one can store nothing any more",
            hint="Restart it, if it is the one that should run.",
        )
