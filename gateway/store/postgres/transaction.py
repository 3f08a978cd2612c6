"""Transaction on a connection to PostgreSQL, with its full-text index.

The index is the table `words`: word lists (tsvector) without texts. Kore splits text into words,
not the server, so that they match the SQLite index regardless of the server's languages and
extensions. Words are lowercase without diacritics; scripts without spaces are split into characters
and found as phrases.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg

from gateway.store.cipher import Cipher
from gateway.store.port import Args, Row, Transaction
from gateway.store.sealing import SealingTransaction

# Scripts that are written without spaces: Thai to Khmer, kana, Han, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_OPEN_ENDED = re.compile(f"[^{_UNSPACED}]$")
# Limits of the server (https://www.postgresql.org/docs/15/textsearch-limitations.html): bytes of a
# word, highest position that counts, bytes of all words of a text.
_WORD_BYTES = 2000
_PLACES = 16_383
_MAX_LIST_BYTES = 1_000_000
# Question marks in quoted text are unchanged; the others become numbered parameters.
_MARK = re.compile(r"'(?:[^']|'')*'|\?")


class PostgresSearchIndex:
    """Implements `gateway.store.port.SearchIndex`.

    Phrases are found in the first 16,383 words of a text, single words in everything that a list
    can hold, about 100,000 words.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        self._tx.many(
            "INSERT INTO words (id, words) VALUES (?, CAST(? AS tsvector))",
            [(number, _word_list(text)) for number, text in texts],
        )

    def remove(self, texts: Iterable[tuple[int, str]]) -> None:
        self._tx.many("DELETE FROM words WHERE id = ?", [(number,) for number, _ in texts])

    def clear(self) -> None:
        self._tx.run("DELETE FROM words")

    def matches(self, phrases: Sequence[str]) -> tuple[str, Sequence[str]]:
        query = " & ".join(f"({text})" for text in map(_phrase, phrases) if text)
        return "SELECT id FROM words WHERE words @@ CAST(? AS tsquery)", (query,)


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, which ends at its first zero character, as for SQLite."""
    whole = unicodedata.normalize("NFKC", text.partition("\0")[0])
    for word in _WORD.findall(whole):
        bare = "".join(
            letter
            for letter in unicodedata.normalize("NFD", word.casefold())
            if not unicodedata.combining(letter)
        )
        if bare and len(bare.encode()) <= _WORD_BYTES:
            yield unicodedata.normalize("NFC", bare)


def _word_list(text: str) -> str:
    """Return a word list in the server's format: 'word':position, with all positions of a word."""
    places: dict[str, list[int]] = {}
    room = _MAX_LIST_BYTES
    for place, word in enumerate(words_of(text), 1):
        # A word takes four bytes in addition to its text, and two for each of its positions.
        room -= 2 if word in places else len(word.encode()) + 8
        if room < 0:
            break
        places.setdefault(word, []).append(min(place, _PLACES))
    return " ".join(f"'{word}':{','.join(map(str, numbers))}" for word, numbers in places.items())


def _phrase(phrase: str) -> str:
    """Return a phrase in the server's format; its last word may be a prefix."""
    words = [f"'{word}'" for word in words_of(phrase)]
    if words and _OPEN_ENDED.search(phrase.strip()):
        words[-1] += ":*"
    return " <-> ".join(words)


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
    """Replace the question marks of a statement with `$1`, `$2` …."""
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
