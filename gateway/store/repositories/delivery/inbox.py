"""Repository for incoming messages: each is accepted once and stored until it is answered."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import takewhile

from agent.records import frozen
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.types import Taint
from gateway.core.channel_events import MembershipChange
from gateway.core.messages import InboundMessage
from gateway.store.conditions import LIVE, RUNNING, WAITING
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import TURN_RUN_HERE, run_here
from gateway.store.repositories.codecs import (
    PAYLOAD,
    bury_changed,
    inbound_from_row,
    payload_of,
    readable,
)
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import chats, pending_media

# Kinds of messages that a chat sends; Kore creates the others.
_OF_PEOPLE = ("message", "button")


@frozen
class InboxEntry:
    """Message as stored; with a `dead_reason`, it is a tombstone without effect."""

    message: InboundMessage
    dead_reason: str | None = None


@frozen
class InboxBatch:
    """Contents of a batch other than messages, as in `Batch`.

    `group_context` contains messages to others; `now` is in Unix seconds.
    """

    channel: str
    account: str
    now: float
    cursors: Mapping[str, str] = field(default_factory=dict)
    moves: Sequence[tuple[str, str]] = ()
    group_context: Sequence[InboundMessage] = ()
    membership_changes: Sequence[MembershipChange] = ()


def accept(
    tx: Transaction,
    arrival: InboxBatch,
    entries: Sequence[InboxEntry],
    *,
    new: Sequence[InboxEntry] | None = None,
) -> set[str]:
    """Store all results of a poll, and its cursors; return the lanes with new work.

    `new` are the `unknown` entries, if already determined.
    """
    lanes = set()
    new = unknown(tx, entries) if new is None else new
    # A part of an album that does not mention the bot follows the part that does, in any order.
    for entry in sorted(new, key=lambda entry: entry.message.follows):
        message, dead_reason = entry.message, entry.dead_reason
        if message.album is not None and dead_reason is None and not message.edited:
            dead_reason = pending_media.join_album(tx, message, arrival.now)
        if message.follows and dead_reason is None:
            if pending_media.has_room(tx, message):
                _insert(tx, message, pending_media.EARLY)
                pending_media.wait(tx, message, arrival.now)
            continue
        if message.edited and dead_reason is None:
            dead_reason = _apply_edit(tx, message)
        _insert(tx, message, dead_reason)
        if message.kind in _OF_PEOPLE:
            chats.touch(tx, message.route)
        if dead_reason is None:
            pending_media.hold_for_media(tx, message, arrival.now)
            pending_media.gather_album(tx, message, arrival.now)
            lanes.add(message.session_key)
    chats.add_alias(tx, arrival.channel, arrival.moves)
    chats.add_group_context(tx, arrival.group_context)
    for name, value in arrival.cursors.items():
        tx.run(
            "INSERT INTO cursor (channel, account, name, value, seen_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (channel, account, name) DO UPDATE SET value = excluded.value,"
            " seen_at = excluded.seen_at",
            (arrival.channel, arrival.account, name, value, arrival.now),
        )
    return lanes


def unknown(tx: Transaction, entries: Sequence[InboxEntry]) -> list[InboxEntry]:
    """Return the distinct entries that the platform has not delivered before."""
    by_key: dict[tuple[str, str, str], InboxEntry] = {}
    for entry in entries:
        message = entry.message
        by_key.setdefault((message.channel, message.account, message.event_id), entry)
    return [entry for entry in by_key.values() if not _is_known(tx, entry.message)]


def _is_known(tx: Transaction, message: InboundMessage) -> bool:
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE channel = ? AND account = ? AND event_id = ?)",
        (message.channel, message.account, message.event_id),
    )
    return bool(exists)


def waits(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the message still has to be answered."""
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE channel = ? AND account = ? AND event_id = ?"
        f" AND {WAITING})",
        (message.channel, message.account, message.event_id),
    )
    return bool(exists)


def load_cursors(
    tx: Transaction, channel: str, account: str, not_before: float
) -> Mapping[str, str]:
    """Return the positions to continue from, by name, that were stored since `not_before`.

    A platform may restart its numbers after a quiet week, and an old position would then hide
    messages. Without a position, the platform sends everything that it still has, and the unique
    key discards known messages.
    """
    return dict(
        tx.all(
            "SELECT name, value FROM cursor WHERE channel = ? AND account = ? AND seen_at >= ?",
            (channel, account, not_before),
        )
    )


def of_turn(tx: Transaction, turn: int) -> list[InboundMessage]:
    """Return the messages that a turn answers, oldest first."""
    rows = tx.all(f"SELECT {PAYLOAD} FROM inbox WHERE turn_id = ? ORDER BY seq", (turn,))
    return [inbound_from_row(tx, *row) for row in rows]


def withdraw(tx: Transaction, lane: str, event_id: str, reason: str) -> bool:
    """Withdraw a waiting message of the lane; return False if it does not wait there."""
    withdrawn = tx.run(
        f"UPDATE inbox SET dead_reason = ? WHERE lane = ? AND event_id = ? AND {WAITING}",
        (reason, lane, event_id),
    )
    return bool(withdrawn)


def is_waiting(tx: Transaction, lane: str, event_id: str) -> bool:
    """Return whether a message with this event id waits in the lane."""
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM inbox WHERE lane = ? AND event_id = ? AND {WAITING})",
        (lane, event_id),
    )
    return bool(exists)


def withdraw_event(tx: Transaction, event_id: str, reason: str) -> bool:
    """Withdraw a waiting message that Kore itself has written, in any lane."""
    return bool(
        tx.run(
            f"UPDATE inbox SET dead_reason = ? WHERE event_id = ? AND {WAITING}",
            (reason, event_id),
        )
    )


def withdraw_command_reports(tx: Transaction, lane: str, reason: str) -> None:
    """Withdraw reports of commands for a lane that no turn returns to.

    Otherwise a turn would begin there for them.
    """
    for seq, message in waiting_rows(tx, lane, together=True):
        if message.kind == "command_report":
            tx.run("UPDATE inbox SET dead_reason = ? WHERE seq = ?", (reason, seq))


def waiting_count(tx: Transaction) -> int:
    row = tx.one(f"SELECT count(*) FROM inbox WHERE {WAITING}")
    return int(row[0])


def unfinished_count(tx: Transaction, principal: str) -> int:
    """Return the number of a person's waiting messages and of turns answering their messages."""
    # The index of waiting messages is short, unlike the index of all messages of a person.
    (waiting,) = tx.one(
        f"SELECT count(*) FROM inbox WHERE {WAITING} AND principal || '' = ?", (principal,)
    )
    (running,) = tx.one(
        f"SELECT count(*) FROM turn WHERE {LIVE} AND EXISTS"
        " (SELECT 1 FROM inbox WHERE turn_id = turn.id AND principal || '' = ?)",
        (principal,),
    )
    return int(waiting) + int(running)


def has_work(tx: Transaction, lane: str) -> bool:
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM turn WHERE lane = ? AND {LIVE}) OR"
        f" EXISTS (SELECT 1 FROM inbox WHERE lane = ? AND {WAITING})",
        (lane, lane),
    )
    return bool(exists)


def lanes_with_work(tx: Transaction) -> list[str]:
    """Return lanes of this process's channels with a turn to continue, or with waiting messages."""
    rows = tx.all(
        f"SELECT lane FROM turn WHERE {RUNNING} AND {TURN_RUN_HERE} UNION"
        f" SELECT DISTINCT lane FROM inbox WHERE {WAITING} AND {run_here('inbox')}"
    )
    return [lane for (lane,) in rows]


def lanes_at_work(tx: Transaction) -> list[str]:
    """Return lanes with something unanswered, including work that waits for a person."""
    rows = tx.all(
        f"SELECT lane FROM turn WHERE {LIVE} UNION SELECT DISTINCT lane FROM inbox WHERE {WAITING}"
        " UNION SELECT DISTINCT lane FROM outbox WHERE state IN ('pending', 'inflight')"
    )
    return [lane for (lane,) in rows]


def fate(tx: Transaction, message: InboundMessage) -> str | None:
    """Return the reason why a stored message will not be answered; None as long as it may be."""
    row = tx.first(
        "SELECT dead_reason FROM inbox WHERE channel = ? AND account = ? AND event_id = ?",
        (message.channel, message.account, message.event_id),
    )
    return row[0] if row else None


# Condition that this process does the lane's work; it takes the lane as a value twice.
LANE_RUN_HERE = (
    f"(EXISTS (SELECT 1 FROM turn WHERE lane = ? AND {LIVE} AND {TURN_RUN_HERE}) OR"
    f" EXISTS (SELECT 1 FROM inbox WHERE lane = ? AND {WAITING} AND {run_here('inbox')}))"
)


def is_run_here(tx: Transaction, lane: str) -> bool:
    """Return whether the lane's work belongs to this process."""
    (exists,) = tx.one(f"SELECT {LANE_RUN_HERE}", (lane, lane))
    return bool(exists)


def may_be_blocked(tx: Transaction, lane: str) -> bool:
    """Return whether the lane may be blocked.

    True if its conversation is paused, or if any question is open.
    """
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM approval WHERE state = 'open') OR EXISTS"
        " (SELECT 1 FROM binding JOIN session ON session.id = binding.session"
        " WHERE binding.lane = ? AND session.status = 'paused')",
        (lane,),
    )
    return bool(exists)


def _insert(tx: Transaction, message: InboundMessage, dead_reason: str | None) -> None:
    source = f"{message.chat_id}:{message.message_id}" if message.message_id else None
    key = (message.channel, message.account, message.event_id)
    place = (*key, message.session_key, message.principal)
    payload = payload_of(tx, place, message.to_json())
    entry = (*key, source, message.session_key, message.principal, payload)
    tx.run(
        "INSERT INTO inbox (channel, account, event_id, source_message_id, lane, principal,"
        " payload,"
        " received_at, dead_reason)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*entry, message.received_at, dead_reason),
    )


def _apply_edit(tx: Transaction, edit: InboundMessage) -> str | None:
    """Replace the text of a waiting message; return the reason if the edit needs no answer."""
    row = tx.first(
        f"SELECT seq, {PAYLOAD}, turn_id IS NULL AND dead_reason IS NULL FROM inbox"
        " WHERE channel = ? AND account = ? AND source_message_id = ?"
        f" AND (dead_reason IS NULL OR dead_reason <> '{pending_media.EARLY}')"
        " ORDER BY 8 DESC, seq DESC LIMIT 1",
        (edit.channel, edit.account, f"{edit.chat_id}:{edit.message_id}"),
    )
    if row is None:
        return None
    waits = row[-1]
    seq, old = next(readable(tx, [row[:-1]]), (0, None))
    if old is None:
        return None
    if old.content == edit.content:
        return "edit changes nothing"
    if waits:
        pending_media.edit(tx, seq, old, edit)
        return f"edit of {seq}"
    return None


# Waiting messages of one lane above this number are joined into its next turn.
LANE_LIMIT = 50


def is_unanswered(tx: Transaction, seq: int) -> bool:
    """Return whether the row still waits, because it could be claimed in two ways."""
    (exists,) = tx.one(f"SELECT EXISTS (SELECT 1 FROM inbox WHERE seq = ? AND {WAITING})", (seq,))
    return bool(exists)


def waiting_messages(tx: Transaction, lane: str) -> list[InboundMessage]:
    """Return the waiting messages of the lane, oldest first."""
    return [message for _, message in waiting_rows(tx, lane, together=True, incomplete=True)]


def unfinished(tx: Transaction, lane: str) -> frozenset[str]:
    """Return the platform's ids of messages in the lane that wait or are being answered."""
    rows = tx.all(
        f"SELECT source_message_id FROM inbox WHERE lane = ? AND {WAITING} UNION"
        " SELECT source_message_id FROM inbox"
        f" WHERE turn_id IN (SELECT id FROM turn WHERE lane = ? AND {LIVE})",
        (lane, lane),
    )
    return frozenset(source.partition(":")[2] for (source,) in rows if source)


def session_of_message(message: InboundMessage) -> str | None:
    """Return the session that a report, a job or a goal belongs to, wherever its chat is now."""
    belongs = message.is_report or message.is_for_goal or message.kind == "job"
    return message.options.session if belongs else None


def waiting_rows(
    tx: Transaction, lane: str, *, together: bool, incomplete: bool = False
) -> list[tuple[int, InboundMessage]]:
    """Return the lane's next message, or several.

    The messages after it are returned as well if they are taken together, or if the lane exceeds
    its limit. An `incomplete` message, and all after it, are returned only on request. A message
    that was changed outside of Kore is given up.
    """
    rows = tx.all(
        f"SELECT seq, {PAYLOAD}, is_incomplete FROM inbox WHERE lane = ? AND {WAITING} ORDER BY seq"
        " LIMIT (SELECT CASE WHEN ? = 1 OR count(*) = 0 THEN count(*)"
        " WHEN count(*) > ? THEN count(*) - ? + 1 ELSE 1 END"
        f" FROM inbox WHERE lane = ? AND {WAITING})",
        (lane, together, LANE_LIMIT, LANE_LIMIT, lane),
    )
    ready = rows if incomplete else takewhile(lambda row: not row[-1], rows)
    return bury_changed(tx, (row[:-1] for row in ready))


def taint_of_quotes(tx: Transaction, messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """Return the taint of quoted messages.

    A quoted answer of Kore has the taint of its session, and a quote of the sender's own words has
    none; everything else counts as a stranger's words.
    """
    quoting = (
        inbound_message
        for inbound_message in messages
        if inbound_message.quoted and not inbound_message.quoted_own
    )
    return NOTHING.union(*(_taint(tx, inbound_message) for inbound_message in quoting))


def _taint(tx: Transaction, message: InboundMessage) -> frozenset[Taint]:
    row = tx.first(
        "SELECT t.session, o.delivery_id FROM outbox o LEFT JOIN turn t ON t.id = o.turn_id"
        " WHERE o.provider_message_id = ? AND o.lane = ? ORDER BY o.seq DESC LIMIT 1",
        (message.quoted_id, message.route.lane),
    )
    if row is None:
        return UNTRUSTED
    session, delivery = row
    if session is not None:
        return sessions.taint_of(tx, session)
    # A reminder is in its author's words; a command's answer may list anything.
    return NOTHING if delivery.startswith("cron:") else UNTRUSTED
