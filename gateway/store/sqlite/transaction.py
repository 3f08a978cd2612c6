"""Transaction on the SQLite connection, with its full-text index.

The index is the FTS5 table `words`, which stores no text.
"""

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

from gateway.store.cipher import Cipher
from gateway.store.port import Args, Row
from gateway.store.sealing import SealingTransaction

# Scripts that are written without spaces: Thai to Khmer, kana, Han, Hangul. Their characters are
# indexed separately and matched as phrases.
_UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)

MATCHES = "SELECT rowid AS id FROM words WHERE words MATCH ?"


class SqliteSearchIndex:
    """Implements `gateway.store.port.SearchIndex`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        self._connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(number, _spaced(text)) for number, text in texts],
        )

    def remove(self, texts: Iterable[tuple[int, str]]) -> None:
        self._connection.executemany(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
            [(number, _spaced(text)) for number, text in texts],
        )

    def clear(self) -> None:
        self._connection.execute("INSERT INTO words (words) VALUES ('delete-all')")

    def matches(self, phrases: Sequence[str]) -> tuple[str, Sequence[str]]:
        query = " ".join(map(_phrase, phrases))
        return MATCHES, (query,)


def _spaced(text: str) -> str:
    if text.isascii():
        return text
    return _unspaced().sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


@cache
def _unspaced() -> re.Pattern[str]:
    """Compile the pattern on first use: it takes 6 ms."""
    return re.compile(_UNSPACED)


def _phrase(phrase: str) -> str:
    """Return a phrase in FTS5 syntax; its last word may be a prefix."""
    spaced = _spaced(phrase).strip()
    open_ended = spaced[-1].isascii() or not _unspaced().match(spaced[-1])
    return '"' + spaced.replace('"', '""') + '"' + (" *" if open_ended else "")


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
