"""Connection to PostgreSQL that returns rows with the same types as SQLite."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper

from gateway.core.addresses import (
    SERVER_TIMEOUTS,
    TIMEOUTS,
    application_name,
    own_name,
    public_address,
)
from gateway.store.errors import StoreError
from gateway.store.port import Row
from gateway.store.postgres.errors import mapped

# Failures are raised. psycopg's warnings are about secondary failures, such as a pipeline that was
# closed with its connection, and sound as if data were lost.
logging.getLogger("psycopg").setLevel(logging.ERROR)

LONGEST_IDLE_S = 60.0
_SETTINGS = (
    "-c timezone=UTC -c default_transaction_isolation=serializable"
    # An index scan conflicts with fewer transactions than a scan of a whole table. If there is no
    # index, the estimated cost is then so high that each such statement would be JIT-compiled,
    # which takes 0.2 s.
    " -c enable_seqscan=off -c jit=off" + SERVER_TIMEOUTS
)


# Ends the connections of a process by its name, if they belong to the same user of the server; Kore
# may not end others. Append the name.
END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database() AND usename = current_user AND application_name = "
)


def connect(address: str, idle_s: float = LONGEST_IDLE_S) -> "psycopg.Connection[Row]":
    """Connect in autocommit mode: transactions need an explicit BEGIN.

    The server ends a connection that is idle for `idle_s` within a transaction. Raises
    `psycopg.Error`.
    """
    settings = f"{_SETTINGS} -c idle_in_transaction_session_timeout={round(idle_s * 1000)}"
    connection = psycopg.connect(
        address,
        autocommit=True,
        application_name=application_name(own_name()),
        options=settings,
        **TIMEOUTS,
    )
    for kind in (int, bool):
        connection.adapters.register_dumper(kind, _WholeNumber)
    connection.adapters.register_loader("bool", _Flag)
    connection.adapters.register_loader("numeric", _Number)
    return connection


def connect_first(address: str) -> "psycopg.Connection[Row]":
    """Connect at startup. Raises `StoreError`, which shows no password."""
    try:
        return connect(address)
    except psycopg.Error as exc:
        raise StoreError(
            "cannot connect to the database {path}: {reason}",
            path=public_address(address),
            reason=" ".join(str(exc).split()),
            hint="Check that PostgreSQL runs and that store.url names its host, database and user.",
        ) from exc


@contextmanager
def first_connection(address: str) -> "Iterator[psycopg.Connection[Row]]":
    """Connect at startup; close the connection if the block fails. Raises `StoreError`."""
    connection = connect_first(address)
    try:
        yield connection
    except psycopg.Error as exc:
        connection.close()
        raise mapped(exc) from exc
    except StoreError:
        connection.close()
        raise


class _WholeNumber(Int8Dumper):
    """Dumper that gives all integers and flags one type, so that a statement is prepared once."""

    def dump(self, obj: Any) -> Buffer | None:
        return super().dump(int(obj))


class _Flag(Loader):
    """Loader that returns a boolean as SQLite does: 0 or 1."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _Number(Loader):
    """Loader for `numeric`, the type of a sum of integers."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)
