"""Stored conversations to search."""

from agent.types import user
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions


def talk(db: Transaction, *texts: str, principal: str = "chat:7", home: str = "chat:bot:1") -> str:
    session = sessions.create_session(db, principal, 1.0)
    db.run("UPDATE session SET home_lane = ? WHERE id = ?", (home, session))
    sessions.append_messages(db, session, None, [user(text) for text in texts], 2.0)
    return session
