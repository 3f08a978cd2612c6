"""Which chats a bot is out of: thrown out, blocked, or found unreachable. Unix seconds."""

from collections.abc import Mapping
from sqlite3 import Connection
from typing import Any

from gateway.core.messages import InboundMessage, Route

_KEY = "channel = ? AND account = ? AND chat = ?"


def mark_unreachable(connection: Connection, route: Route, reason: str, now: float) -> int:
    """The bot is out of this chat: what waits for it, in all its topics, is ended.

    Returns how many parts were given up.
    """
    key = (route.channel, route.account, route.chat_id)
    connection.execute(
        "INSERT INTO whereabouts (channel, account, chat, state, reason, at)"
        " VALUES (?, ?, ?, 'out', ?, ?)"
        " ON CONFLICT DO UPDATE SET state = 'out', reason = excluded.reason, at = excluded.at",
        (*key, reason, now),
    )
    return connection.execute(
        "UPDATE outbox SET state = 'dead', dead_reason = ?"
        f" WHERE {_KEY} AND state IN ('pending', 'inflight')",
        (reason, *key),
    ).rowcount


def mark_reachable(connection: Connection, route: Route, reason: str, now: float) -> None:
    """The bot is in this chat."""
    connection.execute(
        "INSERT INTO whereabouts (channel, account, chat, state, reason, at)"
        " VALUES (?, ?, ?, 'in', ?, ?)"
        " ON CONFLICT DO UPDATE SET state = 'in', reason = excluded.reason, at = excluded.at",
        (route.channel, route.account, route.chat_id, reason, now),
    )


def notice_time(connection: Connection, prefix: str, since: float) -> int:
    """How many letters whose name begins so were written after `since`."""
    (found,) = connection.execute(
        "SELECT count(*) FROM outbox WHERE delivery_id GLOB ? AND created_at > ?",
        (f"{prefix}*", since),
    ).fetchone()
    return int(found)


def touch(connection: Connection, message: InboundMessage) -> None:
    """Whoever writes can be written to."""
    connection.execute(
        f"DELETE FROM whereabouts WHERE {_KEY} AND state = 'out'",
        (message.channel, message.account, message.chat_id),
    )


def is_unreachable(connection: Connection, route: Route) -> bool:
    (found,) = connection.execute(
        f"SELECT EXISTS (SELECT 1 FROM whereabouts WHERE {_KEY} AND state = 'out')",
        (route.channel, route.account, route.chat_id),
    ).fetchone()
    return bool(found)


def unreachable_chats(connection: Connection) -> list[Mapping[str, Any]]:
    """The chats that cannot be written to, the newest first: `chat`, `reason`, `at`."""
    rows = connection.execute(
        "SELECT channel, account, chat, reason, at FROM whereabouts WHERE state = 'out'"
        " ORDER BY at DESC LIMIT 50"
    )
    return [
        {"chat": f"{channel}:{account}:{chat}", "reason": reason, "at": at}
        for channel, account, chat, reason, at in rows
    ]
