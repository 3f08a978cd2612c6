"""Transaction on a real database of either engine, for tests of functions that need it."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from gateway.store.cipher import Cipher
from gateway.store.postgres import migrator
from gateway.store.postgres.connection import connect as connect_server
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories import active_channels
from gateway.store.sealing import check_key, mark_sealed
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction, table_names
from tests import postgres_server


class OpenTransaction(SqliteTransaction):
    """Transaction that commits every statement until BEGIN. `close` it, or use `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def after_commit(self, action: Callable[[], None]) -> None:
        action()

    def close(self) -> None:
        self._connection.close()

    def content(self) -> bytes:
        """Return the whole database as the content of a file."""
        return self._connection.serialize()

    def table_names(self) -> frozenset[str]:
        return table_names(self._connection)


class OpenServerTransaction(PostgresTransaction):
    """`OpenTransaction` on PostgreSQL."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def after_commit(self, action: Callable[[], None]) -> None:
        action()

    def close(self) -> None:
        self._cursor.connection.close()

    def content(self) -> bytes:
        """Return every row of every table."""
        rows = [self.all(f"SELECT * FROM {name}") for name in sorted(self.table_names())]
        return repr(rows).encode()

    def table_names(self) -> frozenset[str]:
        return migrator.table_names(self)


def database_content(path: Path) -> bytes:
    """Return the raw content of a database, with any key, even if a Kore owns it.

    This is the bytes of SQLite's files, or the rows of PostgreSQL's tables.
    """
    if postgres_server.engine() == "sqlite":
        return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))
    with OpenServerTransaction(connect_server(postgres_server.database_of(path))) as tx:
        return tx.content()


def open_transaction(
    path: Path, *, check: bool = False, cipher: Cipher | None = None
) -> OpenTransaction | OpenServerTransaction:
    """Open a transaction on the database in `path`, which is created if missing."""
    if postgres_server.engine() == "sqlite":
        return OpenTransaction(connect(path, check=check, cipher=cipher), cipher)
    tx = OpenServerTransaction(connect_server(postgres_server.database_of(path)), cipher)
    check_key(tx, path, cipher, ("meta", "session", "message"))
    mark_sealed(tx, cipher)
    active_channels.limit(tx, active_channels.ALL)
    return tx
