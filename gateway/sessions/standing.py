"""How a conversation stands, in one look at the disk: what a status line shows."""

from sqlite3 import Connection
from typing import Any

from gateway.store.repositories import backlog, sessions, usage


def conversation_status(connection: Connection, lane: str) -> dict[str, Any]:
    """The session of a lane with the model and the mode that were chosen for it (None: those of
    the settings), how many messages wait, and what it has cost, as far as that is known."""
    session = sessions.bound_session(connection, lane)
    spent = usage.of_session(connection, session) if session else None
    return {
        "session": session,
        "model": sessions.chosen_model(connection, session) if session else None,
        "mode": sessions.chosen_mode(connection, session) if session else None,
        "waiting": len(backlog.waiting_messages(connection, lane)),
        "cost_usd": spent.known_usd if spent is not None and spent.calls else None,
    }
