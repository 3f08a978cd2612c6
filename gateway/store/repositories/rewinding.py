"""Taking a conversation back to before one of its messages: a fork of what was said until then."""

from agent.records import frozen
from gateway.store.port import Transaction
from gateway.store.repositories import session_admin, sessions
from gateway.store.repositories.session_admin import SessionOwner

_CONTENT = "unseal(content, 'message.content', session, n)"
_TITLE_CHARS = 60


@frozen
class RewindPoint:
    """The first message of a turn: the turn, when it came, and how it begins."""

    turn: int
    at: float
    title: str


def asked(tx: Transaction, session: str) -> list[RewindPoint]:
    """The messages that can be gone back to, the oldest first."""
    rows = tx.all(
        "SELECT turn_id, created_at, (SELECT substr(value ->> '$.text', 1, 200)"
        f" FROM json_each({_CONTENT}, '$.content') WHERE value ->> '$.type' = 'text' LIMIT 1),"
        " min(n) FROM message WHERE session = ? AND role = 'user' AND turn_id IS NOT NULL"
        " GROUP BY turn_id ORDER BY turn_id",
        (session,),
    )
    return [RewindPoint(turn, at, _title(text or "")) for turn, at, text, _ in rows]


def is_copy(tx: Transaction, session: str) -> bool:
    """Whether it was forked from another one."""
    query = "SELECT 1 FROM session WHERE id = ? AND parent IS NOT NULL"
    return tx.first(query, (session,)) is not None


def rewind(
    tx: Transaction, key: str, session: str, turn: int, owner: SessionOwner, now: float
) -> str:
    """A new session with all that was said before a turn, and the lane in it; once for each key.

    The record of what was changed before the turn goes along.
    """
    if (fork := done(tx, key)) is not None:
        return fork
    (first,) = tx.one(
        "SELECT min(n) FROM message WHERE session = ? AND turn_id = ?", (session, turn)
    )
    fork = session_admin.fork(tx, session, owner, now, last=first - 1)
    sessions.bind(tx, owner.home, fork)
    tx.run("UPDATE change SET session = ? WHERE session = ? AND turn_id < ?", (fork, session, turn))
    name = _name(key)
    tx.run(
        "INSERT INTO undoing (name, session, plan, report, made_at)"
        " VALUES (?, ?, seal('', 'undoing.plan', ?), seal(?, 'undoing.report', ?), ?)",
        (name, session, name, fork, name, now),
    )
    return fork


def done(tx: Transaction, key: str) -> str | None:
    """The session that a rewinding with this key has come to, if it has happened."""
    row = tx.first(
        "SELECT unseal(report, 'undoing.report', name) FROM undoing WHERE name = ?", (_name(key),)
    )
    return row[0] if row else None


def _name(key: str) -> str:
    return f"{key}:chat"


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"
