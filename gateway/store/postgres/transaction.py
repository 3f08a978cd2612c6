"""Transaction on a connection to PostgreSQL."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg

from gateway.store.cipher import Cipher
from gateway.store.port import Args, Row
from gateway.store.postgres.search_index import PostgresSearchIndex
from gateway.store.sealing import SealingTransaction

# Question marks in quoted text stay; the others become numbered values.
_MARK = re.compile(r"'(?:[^']|'')*'|\?")


class PostgresTransaction(SealingTransaction):
    """Implements `gateway.store.port.Transaction`. The engine begins and ends it."""

    def __init__(self, connection: "psycopg.Connection[Row]", cipher: Cipher | None = None) -> None:
        super().__init__(cipher)
        self._cursor = psycopg.RawCursor(connection)

    def with_cipher(self, cipher: Cipher | None) -> "PostgresTransaction":
        """Return the same transaction with another encryption key."""
        return PostgresTransaction(self._cursor.connection, cipher)

    @property
    def search(self) -> PostgresSearchIndex:
        return PostgresSearchIndex(self)

    def first(self, sql: str, args: Args = ()) -> Row | None:
        row: Row | None = self._execute(sql, args).fetchone()
        return row

    def all(self, sql: str, args: Args = ()) -> list[Row]:
        return self._execute(sql, args).fetchall()

    def run(self, sql: str, args: Args = ()) -> int:
        return self._execute(sql, args).rowcount

    def many(self, sql: str, rows: Iterable[Args]) -> None:
        self._cursor.executemany(numbered(sql), [_storable(args) for args in rows])

    def _execute(self, sql: str, args: Args) -> "psycopg.RawCursor[Row]":
        return self._cursor.execute(numbered(sql), _storable(args))


@lru_cache(maxsize=2000)
def numbered(sql: str) -> bytes:
    """Return the statement with `$1`, `$2` … in place of its question marks."""
    numbers = count(1)

    def number(mark: re.Match[str]) -> str:
        return f"${next(numbers)}" if mark[0] == "?" else mark[0]

    return _MARK.sub(number, sql).encode()


def _storable(args: Args) -> Sequence[Any]:
    """Replace zero characters, which PostgreSQL cannot store in text."""
    return [
        argument.replace("\0", "\ufffd")
        if isinstance(argument, str) and "\0" in argument
        else argument
        for argument in args
    ]
