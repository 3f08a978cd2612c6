"""Database of the gateway's tests: SQLite, or PostgreSQL if the run selects it."""

from contextlib import closing
from pathlib import Path

from gateway.store.cipher import Cipher
from gateway.store.opening import open_store
from gateway.store.postgres.connection import connect
from gateway.store.postgres.engine import PostgresStore
from gateway.store.sqlite.engine import SqliteStore
from tests import postgres_server
from tests.fakes.rehearsing_store import RehearsingStore

OpenStore = SqliteStore | PostgresStore


def open_database(path: Path, cipher: Cipher | None = None) -> OpenStore:
    """Open the database file in `path`, or the PostgreSQL database used in its place.

    SQLite's store runs each function twice.
    """
    if postgres_server.engine() == "sqlite":
        return RehearsingStore.open(path, cipher=cipher)
    address = postgres_server.database_of(path)
    with closing(connect(address)) as connection:
        # A fault set by `faults.refuse` ends with the process that set it.
        connection.execute("DROP FUNCTION IF EXISTS refused CASCADE")
    store = open_store(address, path.parent, check=False, cipher=cipher)
    assert isinstance(store, PostgresStore)
    return store
