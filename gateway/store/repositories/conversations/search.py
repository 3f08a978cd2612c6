"""Search for messages by their words, in an index that is updated with each stored message.

The index covers texts of people and the model. A database with sealed texts has none. Embeddings of
texts are cached, so that each is requested only once.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from agent.records import frozen
from agent.types import Message
from gateway.core.records import SearchHit
from gateway.store.errors import SearchRefused
from gateway.store.port import Row, Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import session_marks
from gateway.store.repositories.preferences import get_state

_TERM = re.compile(r'"([^"]*)"|(\S+)')
_WORD = re.compile(r"\w")
AROUND_CHARS = 60
# Query limits: each word costs database time, which all users share.
MAX_WORDS = 32
MAX_QUERY_CHARS = 1_000
# Maximum number of messages that one search finds.
_MAX_HITS = 200
# Number of older texts indexed in one transaction, so that other work does not wait for long.
CHUNK = 500
# Rows read around a hit, because some contain only tool calls.
_NEIGHBOURS = 200
# Number of sessions that are searched for the newest messages.
_NEWEST_SESSIONS = 200
# About 120 MB of vectors with 1,536 numbers.
MAX_EMBEDDINGS = 20_000


@frozen
class Scope:
    """Owner and chat of the conversations to search; None for all."""

    principal: str | None = None
    chat: str | None = None
    console: bool = False

    def where(self) -> tuple[str, tuple[str, ...]]:
        """Return a condition on `session AS s`, and its values."""
        if self.principal is None:
            return "TRUE", ()
        own = "s.principal = ?"
        values = [self.principal]
        if self.chat is not None:
            own += " AND (s.home_lane = ? OR substr(s.home_lane, 1, length(?)) = ?)"
            values += [self.chat, f"{self.chat}:", f"{self.chat}:"]
        either = " OR substr(s.principal, 1, 4) = 'cli:'" if self.console else ""
        return f"(({own}){either})", tuple(values)


def enter(tx: Transaction, session: str, numbered: Iterable[tuple[int, Message]]) -> None:
    """Index messages, in the transaction that stores them."""
    texts = [
        (n, message.text)
        for n, message in numbered
        if message.role in ("user", "assistant") and message.text
    ]
    new = []
    for n, text in texts:
        # A database with sealed texts has no index.
        row = tx.first(
            "INSERT INTO search_entry (session, n) SELECT ?, ?"
            " WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'cipher')"
            " ON CONFLICT DO NOTHING RETURNING id",
            (session, n),
        )
        if row is not None:
            new.append((row[0], text))
    tx.search.add(new)


def forget(tx: Transaction, session: str) -> None:
    """Remove a session's words from the index, while its messages still exist."""
    rows = tx.all(
        f"SELECT f.id, {CONTENT} FROM search_entry f JOIN message m USING (session, n)"
        " WHERE f.session = ?",
        (session,),
    )
    tx.search.remove((id_, message_from_row(tx, *columns).text) for id_, *columns in rows)
    tx.run("DELETE FROM search_entry WHERE session = ?", (session,))


def forget_all(tx: Transaction) -> None:
    """Empty the index, for a database that was copied or whose texts get another key."""
    tx.search.clear()
    tx.run("DELETE FROM search_entry")
    tx.run("DELETE FROM meta WHERE name = 'search'")
    forget_embeddings(tx)


def enter_older(tx: Transaction) -> bool:
    """Index some of the older messages, as after a copy of the database.

    Returns True once all are indexed. Raises `SearchRefused` if texts are sealed.
    """
    if _is_sealed(tx):
        raise SearchRefused("sealed")
    row = tx.first("SELECT value FROM meta WHERE name = 'search'")
    reached = json.loads(row[0]) if row else ["", 0]
    if reached is None:
        return True
    rows = tx.all(
        f"SELECT {CONTENT} FROM message WHERE (session, n) > (?, ?) ORDER BY session, n LIMIT ?",
        (*reached, CHUNK),
    )
    for session, n, data in rows:
        enter(tx, session, [(n, message_from_row(tx, session, n, data))])
    reached = list(rows[-1][:2]) if len(rows) == CHUNK else None
    tx.run(
        "INSERT INTO meta (name, value) VALUES ('search', ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (json.dumps(reached),),
    )
    return reached is None


def look_up(tx: Transaction, query: str, scope: Scope, limit: int) -> list[SearchHit]:
    """Return sessions whose name has all these words, then the newest messages with them.

    Raises `SearchRefused` for a query without words.
    """
    limit = min(limit, _MAX_HITS)
    name_hits = list(islice(_find_by_name(tx, _terms(query), scope), limit))
    return name_hits + find(tx, query, scope, limit - len(name_hits))


def find(
    tx: Transaction, query: str, scope: Scope, limit: int, around: int = AROUND_CHARS
) -> list[SearchHit]:
    """Return the newest messages with all these words; a word may be a prefix of a longer one.

    Quoted words match as a phrase. A message that a fork has from its parent is found in the
    parent. A snippet shows `around` characters around the first word. Raises `SearchRefused` for a
    query without words.
    """
    terms = _terms(query)
    if not terms:
        raise SearchRefused("no-words")
    matches, phrases = tx.search.matches(terms)
    where, values = scope.where()
    rows = tx.all(
        "SELECT s.id, s.name, s.principal, m.n, m.role, m.created_at, m.content"
        f" FROM ({matches}) matching JOIN search_entry f ON f.id = matching.id"
        " JOIN message m ON m.session = f.session AND m.n = f.n JOIN session s ON s.id = f.session"
        f" WHERE {where} AND NOT (s.parent IS NOT NULL AND f.n <= s.parent_n)"
        " ORDER BY m.created_at DESC, m.n DESC LIMIT ?",
        (*phrases, *values, limit),
    )
    return [
        SearchHit(
            *(session, name, principal, n, role, at),
            *_snippet(message_from_row(tx, session, n, data).text, terms, around),
        )
        for session, name, principal, n, role, at, data in rows
    ]


def newest(tx: Transaction, scope: Scope, limit: int) -> list[SearchHit]:
    """Return the newest searchable messages of the most recently used sessions.

    Their snippets are their whole texts.
    """
    where, values = scope.where()
    rows = tx.all(
        "SELECT s.id, s.name, s.principal, s.parent, coalesce(s.parent_n, 0), s.permission_mode,"
        " s.taint FROM session s"
        f" WHERE {where} ORDER BY s.last_active_at DESC, s.id DESC LIMIT ?",
        (*values, _NEWEST_SESSIONS),
    )
    hits: list[SearchHit] = []
    for session, name, principal, parent, parent_n, mode, taint in rows:
        if len(hits) >= limit:
            break
        if not _is_known(tx, scope, session, principal, mode, taint):
            continue
        messages = tx.all(
            f"SELECT role, created_at, {CONTENT} FROM message WHERE session = ? AND n > ?"
            " AND role IN ('user', 'assistant') ORDER BY n DESC LIMIT ?",
            (session, 0 if parent is None else parent_n, limit - len(hits)),
        )
        for role, at, _, n, data in messages:
            text = message_from_row(tx, session, n, data).text
            if text.strip():
                hits.append(SearchHit(session, name, principal, n, role, at, text, ()))
    return hits


def _is_known(
    tx: Transaction, scope: Scope, session: str, principal: str, mode: str | None, taint: str
) -> bool:
    """Return whether the owner in a row can be trusted, if the scope requires an owner."""
    if scope.principal is None:
        return True
    return session_marks.opened(tx, session, principal, mode, taint) is not None


def around(
    tx: Transaction, session: str, n: int, scope: Scope, count: int
) -> list[tuple[int, str, float, str]]:
    """Return message `n` and up to `count` messages with words before and after it, in order.

    Each has a number, role, time and text. Empty if there is no such message in the scope.
    """
    where, values = scope.where()
    row = tx.first(
        "SELECT s.id, s.principal, s.permission_mode, s.taint FROM session s"
        f" WHERE s.id = ? AND {where}",
        (session, *values),
    )
    if row is None or not _is_known(tx, scope, *row):
        return []

    def texts(rows: Iterable[Row], limit: int) -> list[tuple[int, str, float, str]]:
        messages = ((row[3], row[0], row[1], message_from_row(tx, *row[2:]).text) for row in rows)
        return list(islice((message for message in messages if message[3].strip()), limit))

    place = (session, n)
    middle = texts(
        tx.all(
            f"SELECT role, created_at, {CONTENT} FROM message WHERE session = ? AND n = ?"
            " AND role IN ('user', 'assistant')",
            place,
        ),
        1,
    )
    if not middle:
        return []
    before = tx.all(
        f"SELECT role, created_at, {CONTENT} FROM message WHERE session = ? AND n < ?"
        " AND role IN ('user', 'assistant') ORDER BY n DESC LIMIT ?",
        (*place, _NEIGHBOURS),
    )
    behind = tx.all(
        f"SELECT role, created_at, {CONTENT} FROM message WHERE session = ? AND n > ?"
        " AND role IN ('user', 'assistant') ORDER BY n LIMIT ?",
        (*place, _NEIGHBOURS),
    )
    return [*texts(before, count)[::-1], *middle, *texts(behind, count)]


def _find_by_name(tx: Transaction, terms: Sequence[str], scope: Scope) -> Iterator[SearchHit]:
    where, values = scope.where()
    rows = tx.all(
        "SELECT s.id, s.name, s.principal, s.last_active_at FROM session s"
        f" WHERE s.name <> '' AND {where} ORDER BY s.last_active_at DESC, s.id DESC",
        values,
    )
    folded_terms = [_plain(" ".join(term.split())).casefold() for term in terms]
    for session, name, principal, at in rows:
        if folded_terms and all(term in _plain(name).casefold() for term in folded_terms):
            snippet = _snippet(name, terms, AROUND_CHARS)
            yield SearchHit(session, name, principal, 0, "name", at, *snippet)


def _is_sealed(tx: Transaction) -> bool:
    return get_state(tx, "cipher") is not None


def _terms(query: str) -> list[str]:
    """Return the terms of a query. Raises `SearchRefused` for a query that is too long."""
    if len(query) > MAX_QUERY_CHARS or len(query.split()) > MAX_WORDS:
        raise SearchRefused("too-many-words")
    # The index would end a text at its first null character.
    pieces = _TERM.findall(query.replace("\0", " "))
    terms = (quoted or plain.rstrip("*") for quoted, plain in pieces)
    return [term for term in terms if _WORD.search(term)]


def _snippet(
    text: str, terms: Sequence[str], around: int
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return one line around the first term, and the positions of the terms in it."""
    line = " ".join(text.split())
    pattern = re.compile("|".join(re.escape(_plain(" ".join(t.split()))) for t in terms), re.I)
    first = pattern.search(_plain(line))
    begin = max(0, first.start() - around) if first else 0
    end = (first.end() if first else 0) + around
    excerpt = ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
    return excerpt, tuple(match.span() for match in pattern.finditer(_plain(excerpt)))


def _plain(text: str) -> str:
    """Replace each character by its base character, as in the index; the length stays the same."""
    return "".join(unicodedata.normalize("NFKD", letter)[0] for letter in text)


def load_embeddings(tx: Transaction, digests: Sequence[bytes], now: float) -> dict[bytes, bytes]:
    """Return the cached vectors and mark them as used."""
    vectors: dict[bytes, bytes] = {}
    for digest in digests:
        row = tx.first("SELECT vector FROM embedding WHERE digest = ?", (digest,))
        if row is not None:
            vectors[digest] = row[0]
    # Updating once a day is enough.
    tx.many(
        "UPDATE embedding SET used_at = ? WHERE digest = ? AND used_at < ?",
        [(now, digest, now - 86_400) for digest in vectors],
    )
    return vectors


def save_embeddings(
    tx: Transaction,
    vectors: Mapping[bytes, bytes],
    now: float,
    max_count: int = MAX_EMBEDDINGS,
) -> None:
    """Store vectors, and delete the least recently used ones over `max_count`."""
    tx.many(
        "INSERT INTO embedding (digest, vector, used_at) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET vector = excluded.vector, used_at = excluded.used_at",
        [(digest, vector, now) for digest, vector in vectors.items()],
    )
    (count,) = tx.one("SELECT count(*) FROM embedding")
    if count > max_count:
        tx.run(
            "DELETE FROM embedding WHERE digest IN"
            " (SELECT digest FROM embedding ORDER BY used_at, digest LIMIT ?)",
            (count - max_count,),
        )


def forget_embeddings(tx: Transaction) -> None:
    tx.run("DELETE FROM embedding")
