"""Repository for chat membership, chat aliases and group context. Times are Unix seconds."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from agent.prompts import render_prompt
from gateway.core.messages import InboundMessage, Route
from gateway.store.conditions import beginning
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import PAYLOAD, readable
from gateway.store.repositories.delivery.outbox import forget_codes

_KEY = "channel = ? AND account = ? AND chat = ?"

# Prefix of the delivery ids of notices to the owner about a chat.
PRESENCE = "presence:"

# A number larger than any row number, and the number of rows that are read at once.
_BEHIND_ALL = 2**62
_BATCH = 20


def mark_unreachable(tx: Transaction, route: Route, reason: str, now: float) -> int:
    """Mark a chat as unreachable and end its waiting deliveries, in all its topics.

    Returns the number of parts given up.
    """
    key = (route.channel, route.account, route.chat_id)
    tx.run(
        "INSERT INTO chat_membership (channel, account, chat, state, reason, at)"
        " VALUES (?, ?, ?, 'out', ?, ?)"
        " ON CONFLICT (channel, account, chat) DO UPDATE SET"
        " state = 'out', reason = excluded.reason, at = excluded.at",
        (*key, reason, now),
    )
    ended = tx.all(
        "UPDATE outbox SET state = 'dead', dead_reason = ?"
        f" WHERE {_KEY} AND state IN ('pending', 'inflight') RETURNING seq, delivery_id",
        (reason, *key),
    )
    return forget_codes(tx, ended)


def mark_reachable(tx: Transaction, route: Route, reason: str, now: float) -> None:
    """Mark a chat as reachable."""
    tx.run(
        "INSERT INTO chat_membership (channel, account, chat, state, reason, at)"
        " VALUES (?, ?, ?, 'in', ?, ?)"
        " ON CONFLICT (channel, account, chat) DO UPDATE SET"
        " state = 'in', reason = excluded.reason, at = excluded.at",
        (route.channel, route.account, route.chat_id, reason, now),
    )


def notice_time(tx: Transaction, prefix: str, since: float) -> int:
    """Return the number of notices with this prefix that were written after `since`."""
    (count,) = tx.one(
        "SELECT count(*) FROM outbox WHERE delivery_id >= ? AND delivery_id < ? AND created_at > ?",
        (*beginning(prefix), since),
    )
    return int(count)


def last_private_message(tx: Transaction, principal: str) -> InboundMessage | None:
    """Return a person's last readable private message."""
    channel = principal.partition(":")[0]
    query = f"SELECT seq, {PAYLOAD} FROM inbox WHERE channel = ? AND principal = ? AND seq < ?"
    before = _BEHIND_ALL
    while rows := tx.all(f"{query} ORDER BY seq DESC LIMIT {_BATCH}", (channel, principal, before)):
        before = rows[-1][0]
        for _, message in readable(tx, rows):
            if message.private:
                return message
    return None


def private_route(tx: Transaction, principal: str) -> Route | None:
    """Return the route of a person's last private message; None if unknown."""
    message = last_private_message(tx, principal)
    return None if message is None else message.route


def private_chat(tx: Transaction, principal: str, account: str) -> Route:
    """Return a person's private chat with an account of their channel.

    Without a private message there, return a chat with the person's id, which works on many
    platforms.
    """
    channel, _, sender = principal.partition(":")
    route = private_route(tx, principal)
    is_there = route is not None and route.account == account
    return Route(channel, account, route.chat_id if route is not None and is_there else sender)


def touch(tx: Transaction, route: Route) -> None:
    """Mark a chat as reachable again: it sends messages, or a person requests another attempt."""
    tx.run(
        f"DELETE FROM chat_membership WHERE {_KEY} AND state = 'out'",
        (route.channel, route.account, route.chat_id),
    )


def is_unreachable(tx: Transaction, route: Route) -> bool:
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM chat_membership WHERE {_KEY} AND state = 'out')",
        (route.channel, route.account, route.chat_id),
    )
    return bool(exists)


def unreachable_chats(tx: Transaction) -> list[Mapping[str, Any]]:
    """Return the unreachable chats, newest first: `chat`, `reason`, `at`."""
    rows = tx.all(
        "SELECT channel, account, chat, reason, at FROM chat_membership WHERE state = 'out'"
        " ORDER BY at DESC LIMIT 50"
    )
    return [
        {"chat": f"{channel}:{account}:{chat}", "reason": reason, "at": at}
        for channel, account, chat, reason, at in rows
    ]


def add_alias(tx: Transaction, channel: str, moves: Iterable[tuple[str, str]]) -> None:
    """Store pairs of first and current id; storing a pair twice changes nothing."""
    tx.many(
        "INSERT INTO chat_alias (channel, stored_id, current_id) VALUES (?, ?, ?)"
        " ON CONFLICT (channel, stored_id) DO UPDATE SET current_id = excluded.current_id",
        [(channel, first, now) for first, now in moves],
    )


def load_aliases(tx: Transaction, channel: str) -> dict[str, str]:
    """Return the current ids by first id."""
    return dict(
        tx.all("SELECT stored_id, current_id FROM chat_alias WHERE channel = ?", (channel,))
    )


def all_aliases(tx: Transaction) -> list[tuple[str, str, str]]:
    """Return all aliases as (channel, first id, current id)."""
    return [
        (channel, first, now)
        for channel, first, now in tx.all("SELECT channel, stored_id, current_id FROM chat_alias")
    ]


# Limits: newest messages of a lane, characters of each, and characters of all together.
MAX_LINES = 50

MAX_LINE_CHARS = 1_000

MAX_SHOWN_CHARS = 8_000

_TEXT = "group_context.text"


def add_group_context(tx: Transaction, messages: Iterable[InboundMessage]) -> None:
    """Store messages; an edit changes the existing line. Storing one twice changes nothing."""
    lanes = set()
    for message in messages:
        lane = message.route.lane
        text = _line(message)
        if message.edited:
            for n, *place in tx.all(
                "SELECT n, channel, account, event_id FROM group_context"
                " WHERE lane = ? AND message_id = ?",
                (lane, message.message_id),
            ):
                sealed = tx.seal(text, _TEXT, *place)
                tx.run("UPDATE group_context SET text = ? WHERE n = ?", (sealed, n))
            continue
        key = (message.channel, message.account, message.event_id)
        tx.run(
            "INSERT INTO group_context (channel, account, event_id, lane, message_id, text)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (*key, lane, message.message_id, tx.seal(text, _TEXT, *key)),
        )
        lanes.add(lane)
    for lane in lanes:
        tx.run(
            "DELETE FROM group_context WHERE lane = ? AND n NOT IN"
            " (SELECT n FROM group_context WHERE lane = ? ORDER BY n DESC LIMIT ?)",
            (lane, lane, MAX_LINES),
        )


def take_group_context(tx: Transaction, lane: str) -> str | None:
    """Return the newest group context for the model, oldest line first, and delete it."""
    rows = tx.all(
        "SELECT text, channel, account, event_id FROM group_context WHERE lane = ? ORDER BY n DESC",
        (lane,),
    )
    if not rows:
        return None
    tx.run("DELETE FROM group_context WHERE lane = ?", (lane,))
    lines: list[str] = []
    room = MAX_SHOWN_CHARS
    for text, *key in rows:
        with suppress(SealBroken):
            line = tx.unseal(text, _TEXT, *key)
            room -= len(line) + 1
            if room < 0:
                break
            lines.append(line)
    if not lines:
        return None
    return render_prompt("overheard", lines="\n".join(reversed(lines))).strip()


def _line(message: InboundMessage) -> str:
    """Return a message as one line, so that no name can imitate another line."""
    words = " ".join(message.content.split())
    name = _name(message.sender.name) or message.sender.id
    if message.forwarded_from is not None:
        name = f"{name} (forwarded from {_name(message.forwarded_from)})"
    return f"{name}: {words if len(words) <= MAX_LINE_CHARS else words[:MAX_LINE_CHARS] + '…'}"


def _name(text: str) -> str:
    return " ".join(text.split()).replace(":", "")[:80]
