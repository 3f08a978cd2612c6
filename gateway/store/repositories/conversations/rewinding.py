"""Taking a conversation back to before one of its messages: a fork of what was said until then."""

from agent.records import frozen
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.conversations.session_admin import SessionOwner

_TITLE_CHARS = 60


@frozen
class RewindPoint:
    """The first message of a turn: the turn, when it came, and how it begins."""

    turn: int
    at: float
    title: str


def list_points(tx: Transaction, session: str) -> list[RewindPoint]:
    """The messages that can be gone back to, the oldest first."""
    rows = tx.all(
        f"SELECT turn_id, created_at, {CONTENT} FROM message WHERE session = ? AND n IN"
        " (SELECT min(n) FROM message WHERE session = ? AND role = 'user'"
        " AND turn_id IS NOT NULL GROUP BY turn_id) ORDER BY turn_id",
        (session, session),
    )
    return [
        RewindPoint(turn, at, _title(message_from_row(tx, *columns).text))
        for turn, at, *columns in rows
    ]


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
    tx.run(
        "UPDATE file_change SET session = ? WHERE session = ? AND turn_id < ?",
        (fork, session, turn),
    )
    name = _name(key)
    tx.run(
        "INSERT INTO undo_operation (name, session, plan, report, made_at) VALUES (?, ?, ?, ?, ?)",
        (
            name,
            session,
            tx.seal("", "undo_operation.plan", name),
            tx.seal(fork, "undo_operation.report", name),
            now,
        ),
    )
    return fork


def done(tx: Transaction, key: str) -> str | None:
    """The session that a rewinding with this key has come to, if it has happened."""
    name = _name(key)
    row = tx.first("SELECT report FROM undo_operation WHERE name = ?", (name,))
    return tx.unseal(row[0], "undo_operation.report", name) if row else None


def _name(key: str) -> str:
    return f"{key}:chat"


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"
