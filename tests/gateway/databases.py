"""Database of the gateway's tests: SQLite, or PostgreSQL if the run selects it."""

import functools
import tempfile
from contextlib import closing
from pathlib import Path

from gateway.store.cipher import Cipher
from gateway.store.opening import open_store
from gateway.store.postgres.connection import connect
from gateway.store.postgres.engine import PostgresStore
from gateway.store.sqlite.engine import SqliteStore
from gateway.store.sqlite.engine import connect as connect_file
from tests import postgres_server
from tests.fakes.rehearsing_store import RehearsingStore

OpenStore = SqliteStore | PostgresStore


def open_database(path: Path, cipher: Cipher | None = None) -> OpenStore:
    """Open the database file in `path`, or the PostgreSQL database used in its place.

    SQLite's store runs each function twice. A new file is a copy of an empty database, unless a
    `cipher` has to mark it.
    """
    if postgres_server.engine() == "sqlite":
        if cipher is None and not path.exists():
            path.write_bytes(_empty_database())
        return RehearsingStore.open(path, cipher=cipher)
    address = postgres_server.database_of(path)
    with closing(connect(address)) as connection:
        # A fault set by `faults.refuse` ends with the process that set it.
        connection.execute("DROP FUNCTION IF EXISTS refused CASCADE")
    store = open_store(address, path.parent, check=False, cipher=cipher)
    assert isinstance(store, PostgresStore)
    return store


@functools.cache
def _empty_database() -> bytes:
    """Return the content of a database that the store has just created.

    Creating a database takes several times as long as opening a copy.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kore.db")
        connect_file(path).close()
        return path.read_bytes()
