"""A transaction on SQLite's one connection."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from gateway.store.cipher import SEALED_PLACES, Cipher
from gateway.store.errors import seal_broken
from gateway.store.port import Args, Row
from gateway.store.sqlite.search_index import SqliteSearchIndex


class SqliteTransaction:
    """Implements `gateway.store.port.Transaction`. The engine begins and ends it."""

    def __init__(self, connection: sqlite3.Connection, cipher: Cipher | None = None) -> None:
        self._connection = connection
        self._cipher = cipher
        self.actions: list[Callable[[], None]] = []

    @property
    def search(self) -> SqliteSearchIndex:
        return SqliteSearchIndex(self._connection)

    def one(self, sql: str, args: Args = ()) -> Row:
        row = self.first(sql, args)
        if row is None:
            raise LookupError(f"no row: {sql}")
        return row

    def first(self, sql: str, args: Args = ()) -> Row | None:
        row: Row | None = self._connection.execute(sql, args).fetchone()
        return row

    def all(self, sql: str, args: Args = ()) -> list[Row]:
        return self._connection.execute(sql, args).fetchall()

    def run(self, sql: str, args: Args = ()) -> int:
        return self._connection.execute(sql, args).rowcount

    def many(self, sql: str, rows: Iterable[Args]) -> None:
        self._connection.executemany(sql, rows)

    def seal(self, text: str | None, column: str, *key: str | int) -> str | None:
        if column not in SEALED_PLACES:
            raise LookupError(f"{column} is no column of `gateway.store.cipher.SEALED`")
        return self._cipher.seal(text, SEALED_PLACES[column], *key) if self._cipher else text

    def unseal(self, stored: Any, column: str, *key: str | int) -> Any:
        if self._cipher is None:
            return stored
        try:
            return self._cipher.unseal(stored, SEALED_PLACES[column], *key)
        except ValueError:
            raise seal_broken() from None

    def after_commit(self, action: Callable[[], None]) -> None:
        self.actions.append(action)
