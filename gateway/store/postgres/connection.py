"""A connection to PostgreSQL whose rows look as those of SQLite do."""

import os
import socket
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.numeric import Int8Dumper

from gateway.store.errors import StoreError
from gateway.store.port import Row

_CONNECT_S = 10
# A server that does not answer is noticed after about this time.
_OPTIONS: dict[str, Any] = {
    "connect_timeout": _CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "options": "-c timezone=UTC -c default_transaction_isolation=serializable"
    # What an index finds conflicts with fewer transactions than a whole table does.
    # A table that has none looks so dear then that each such statement is compiled, for 0.2 s.
    " -c enable_seqscan=off -c jit=off"
    " -c idle_in_transaction_session_timeout=60000"
    # Nor does the server keep the lock of an owner whose machine is gone.
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
}


def own_name() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def application_name(owner: str) -> str:
    """What the server calls the connections of such a process: at most 63 printable characters."""
    return f"kore {owner}".encode("ascii", "replace").decode()[:63]


def connect(address: str) -> "psycopg.Connection[Row]":
    """Outside a transaction until one says BEGIN. Raises `psycopg.Error`."""
    connection = psycopg.connect(
        address, autocommit=True, application_name=application_name(own_name()), **_OPTIONS
    )
    for kind in (int, bool):
        connection.adapters.register_dumper(kind, _WholeNumber)
    connection.adapters.register_loader("bool", _Flag)
    connection.adapters.register_loader("numeric", _Number)
    return connection


def connect_first(address: str) -> "psycopg.Connection[Row]":
    """The same for a start. Raises `StoreError`, which shows no password."""
    try:
        return connect(address)
    except psycopg.Error as exc:
        raise StoreError(
            "cannot connect to the database {path}: {reason}",
            path=public_address(address),
            reason=" ".join(str(exc).split()),
            hint="Check that PostgreSQL runs and that store.url names its host, database and user.",
        ) from exc


def public_address(address: str) -> str:
    """The address without its password and options."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{user.partition(':')[0]}{at}{host}", parts.path, "", ""))


class _WholeNumber(Int8Dumper):
    """All whole numbers are of one type, so that a statement is prepared once; flags are some."""

    def dump(self, obj: Any) -> Buffer | None:
        return super().dump(int(obj))


class _Flag(Loader):
    """What SQLite says of a comparison: 0 or 1."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _Number(Loader):
    """A sum of whole numbers has a type of its own."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)
