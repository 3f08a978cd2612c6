"""Full-text index in PostgreSQL: the table `words`, word lists (tsvector) without texts.

Text is split into words here and not by the server, so that they match the SQLite index with every
set of languages and extensions on the server. Words are lowercase without diacritics; scripts
without spaces are split into characters, which a phrase finds again.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.store.port import Transaction

# Scripts that are written without spaces: Thai to Khmer, kana, Han, Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_OPEN_ENDED = re.compile(f"[^{_UNSPACED}]$")
# Limits of the server (https://www.postgresql.org/docs/15/textsearch-limitations.html): bytes of a
# word, the highest position that counts, bytes of all words of a text.
_WORD_BYTES = 2000
_PLACES = 16_383
_LIST_BYTES = 1_000_000


class PostgresSearchIndex:
    """Implements `gateway.store.port.SearchIndex`.

    Phrases are found in the first 16,383 words of a text, single words in everything that a list
    can contain, about 100,000 words.
    """

    def __init__(self, tx: "Transaction") -> None:
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
    """Return a word list in the server's format: 'word':place, each word with all its places."""
    places: dict[str, list[int]] = {}
    room = _LIST_BYTES
    for place, word in enumerate(words_of(text), 1):
        # A word takes four bytes in addition to its text, and two for each of its places.
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
