"""Rewinding of a conversation to the state before a message, by a fork."""

from agent.records import frozen
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.conversations.session_admin import SessionOwner

_MAX_TITLE_CHARS = 60


@frozen
class RewindPoint:
    """First message of a turn: the turn, its time, and its beginning."""

    turn: int
    at: float
    title: str


def list_points(tx: Transaction, session: str) -> list[RewindPoint]:
    """Return the messages that a conversation can be rewound to, oldest first."""
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
    """Return whether this session was forked from another one."""
    query = "SELECT 1 FROM session WHERE id = ? AND parent IS NOT NULL"
    return tx.first(query, (session,)) is not None


def rewind(
    tx: Transaction, key: str, session: str, turn: int, owner: SessionOwner, now: float
) -> str:
    """Move a lane to a new session with all messages before a turn; returns its id.

    A repeated call with the same key returns the same session. The record of changes before the
    turn moves to the new session.
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
    """Return the session that a rewind with this key has created; None if it has not happened."""
    name = _name(key)
    row = tx.first("SELECT report FROM undo_operation WHERE name = ?", (name,))
    return tx.unseal(row[0], "undo_operation.report", name) if row else None


def _name(key: str) -> str:
    return f"{key}:chat"


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"
