"""Transaction on the SQLite connection."""

import sqlite3
from collections.abc import Iterable

from gateway.store.cipher import Cipher
from gateway.store.port import Args, Row
from gateway.store.sealing import SealingTransaction
from gateway.store.sqlite.search_index import SqliteSearchIndex


class SqliteTransaction(SealingTransaction):
    """Implements `gateway.store.port.Transaction`. The engine begins and ends it."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None = None) -> None:
        super().__init__(cipher)
        self._connection = connection

    @property
    def search(self) -> SqliteSearchIndex:
        return SqliteSearchIndex(self._connection)

    def first(self, sql: str, args: Args = ()) -> Row | None:
        row: Row | None = self._connection.execute(sql, args).fetchone()
        return row

    def all(self, sql: str, args: Args = ()) -> list[Row]:
        return self._connection.execute(sql, args).fetchall()

    def run(self, sql: str, args: Args = ()) -> int:
        return self._connection.execute(sql, args).rowcount

    def many(self, sql: str, rows: Iterable[Args]) -> None:
        self._connection.executemany(sql, rows)


def table_names(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the names of the tables in this database."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return frozenset(name for (name,) in rows)
