"""The database that the gateway's tests stand on: SQLite, or PostgreSQL where the run says so."""

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
    """The file in `path`, or the database that stands for it. SQLite's runs each function twice."""
    if postgres_server.engine() == "sqlite":
        return RehearsingStore.open(path, cipher=cipher)
    address = postgres_server.database_of(path)
    with closing(connect(address)) as connection:
        # A fault of `faults.refuse` ends with the process that it was made in.
        connection.execute("DROP FUNCTION IF EXISTS refused CASCADE")
    store = open_store(address, path.parent, check=False, cipher=cipher)
    assert isinstance(store, PostgresStore)
    return store
