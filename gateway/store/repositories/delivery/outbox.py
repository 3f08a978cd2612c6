"""Repository for outgoing messages: a row for each part of a reply, sent in order on its route."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from math import inf
from typing import Any

from agent.records import frozen
from agent.security.taint.taint import BOTH, NOTHING
from agent.types import Taint
from gateway.core.link_defusing import defuse_part, plain_part
from gateway.core.messages import CONSOLE, OutboundKind, OutboundMessage, OutboundPart, Route
from gateway.core.token_routes import API
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories import codecs
from gateway.store.repositories.active_channels import run_here
from gateway.store.repositories.conversations import session_marks

# Prefix of the delivery ids of messages with a pairing code.
PAIRING = "pair:"


@frozen
class OutgoingReply:
    """Whole reply, rendered for its route.

    `delivery_id` identifies the delivery: a turn's reply has the same id in every attempt. With
    `edits` it replaces that delivery's message, once the platform shows that message. `taint` is
    the taint of conversations whose text it contains, except for the conversation of its own chat;
    `is_read` means that links were removed from its text, except allowed ones. `preview_parts` has
    the contents of its preview's messages, by part number; `page_end` replaces the text of preview
    messages beyond the end of the reply. `outcome` is as in `Delivered`, for its last part.
    """

    delivery_id: str
    route: Route
    parts: Sequence[OutboundPart]
    kind: OutboundKind = "final"
    reply_to: str | None = None
    event_id: str | None = None
    edits: str | None = None
    taint: frozenset[Taint] = NOTHING
    is_read: bool = False
    preview_parts: Mapping[int, OutboundPart] = field(default_factory=dict)
    page_end: str = "↑"
    outcome: str | None = None


@frozen
class PendingPart:
    """First waiting part of a route. It waited `waited_s` between its attempts.

    `is_previewed` means that its message already has this content.
    """

    seq: int
    message: OutboundMessage
    attempts: int
    ambiguous: int
    waited_s: float
    is_previewed: bool = False


_COLUMNS = (
    "seq, delivery_id, part, is_last, lane, channel, account, chat, thread, reply_to,"
    " event_id, kind,"
    f" {codecs.PART}, provider_message_id, maybe_duplicate, preview_lost, attempts,"
    " ambiguous_attempts, waited_s,"
    " outcome, is_shown, next_at"
)

_COLUMN_NAMES = _COLUMNS.replace(",", "").split()

# The index of waiting rows is used only for queries with its exact condition.
UNSENT = "state IN ('pending', 'inflight')"

# Message that an edit replaces. Its row is earlier on the route, so it was already sent or never
# will be.
_EDITED = (
    "(SELECT o.provider_message_id FROM outbox o WHERE o.delivery_id = outbox.edits AND o.part = 0)"
)


def put(tx: Transaction, turn: int | None, replies: Sequence[OutgoingReply], now: float) -> None:
    """Queue replies. A part that is streaming already becomes an edit of its preview."""
    for reply in replies:
        is_longer, session, principal, mode, taint = tx.one(
            "SELECT EXISTS (SELECT 1 FROM outbox WHERE delivery_id = ? AND part >= ?"
            " AND state = 'streaming'), session.id, session.principal, session.permission_mode,"
            " session.taint FROM (SELECT 1) AS single"
            " LEFT JOIN binding ON binding.lane = ?"
            " LEFT JOIN session ON session.id = binding.session",
            (reply.delivery_id, len(reply.parts), reply.route.lane),
        )
        here = NOTHING
        if session is not None:
            _, here = session_marks.of_row(tx, session, principal, mode, taint)
        for number, part in enumerate(_inert(reply, here)):
            last = number + 1 == len(reply.parts)
            _put_part(tx, turn, reply, (number, part, last), now)
        if turn is not None and is_longer:
            _close_pages(tx, reply)


def _inert(reply: OutgoingReply, here: frozenset[Taint]) -> Sequence[OutboundPart]:
    """Return the parts, with links defused if the taint requires it, before they become rows.

    `here` is the taint of the chat's current conversation.
    """
    if not (reply.taint | here) >= BOTH:
        return reply.parts
    is_markdown = reply.route.channel in (CONSOLE, API)
    return [
        defuse_part(part, is_markdown=is_markdown, is_read=reply.is_read) for part in reply.parts
    ]


def _put_part(
    tx: Transaction,
    turn: int | None,
    reply: OutgoingReply,
    numbered: tuple[int, OutboundPart, bool],
    now: float,
) -> None:
    number, part, last = numbered
    route = reply.route
    address = (route.lane, route.channel, route.account, route.chat_id, route.thread_id)
    place = (reply.delivery_id, number, *address)
    tx.run(
        "INSERT INTO outbox (delivery_id, part, is_last, turn_id, lane, channel, account, chat,"
        f" thread, reply_to, event_id, kind, {codecs.PART}, edits, outcome, is_shown, state,"
        " created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?)"
        " ON CONFLICT (delivery_id, part) DO UPDATE SET body = excluded.body, is_last ="
        " excluded.is_last, lane = excluded.lane, channel = excluded.channel,"
        " account = excluded.account, chat = excluded.chat, thread = excluded.thread,"
        " kind = excluded.kind, buttons = excluded.buttons,"
        " event_id = excluded.event_id, entities = excluded.entities, files = excluded.files,"
        " outcome = excluded.outcome, is_shown = excluded.is_shown,"
        " state = 'pending', next_at = 0 WHERE outbox.state = 'streaming'",
        (
            *(reply.delivery_id, number, last, turn),
            *address,
            reply.reply_to if number == 0 else None,
            *(reply.event_id, reply.kind),
            *codecs.columns_of_part(tx, place, reply.kind, part).values(),
            *(reply.edits, reply.outcome if last else None),
            *(reply.preview_parts.get(number) == part, now),
        ),
    )


def _close_pages(tx: Transaction, reply: OutgoingReply) -> None:
    """Replace the text of preview pages beyond the end of the answer, or delete unsent ones."""
    over = (reply.delivery_id, len(reply.parts))
    tx.run(
        "DELETE FROM outbox WHERE delivery_id = ? AND part >= ? AND state = 'streaming'"
        " AND provider_message_id IS NULL AND preview_lost = 0",
        over,
    )
    for part, *rest in tx.all(
        f"SELECT part, {codecs.PART_ROUTE}, kind, buttons FROM outbox"
        " WHERE delivery_id = ? AND part >= ? AND state = 'streaming'",
        over,
    ):
        body = tx.seal(reply.page_end, "outbox.body", reply.delivery_id, part, *rest)
        tx.run(
            "UPDATE outbox SET body = ?, is_last = 0, state = 'pending', next_at = 0"
            " WHERE delivery_id = ? AND part = ?",
            (body, reply.delivery_id, part),
        )


@frozen
class PreviewRow:
    """Preview shown by an earlier run of a turn: the platform's id, or `lost` if it is unknown."""

    provider_message_id: str | None
    lost: bool


def begin_stream(
    tx: Transaction, turn: int, reply: OutgoingReply, part: int, now: float
) -> PreviewRow | None:
    """Create the part of the reply for a preview's page, before its first send.

    The part counts as lost until that send is known to have ended. Returns None while earlier
    messages wait on its route.
    """
    page = (reply.delivery_id, part)
    row = tx.first(
        "SELECT provider_message_id, preview_lost FROM outbox WHERE delivery_id = ? AND part = ?",
        page,
    )
    if row is not None and (row[0] is not None or row[1]):
        return PreviewRow(row[0], row[0] is None)
    if has_mail(tx, reply.route.lane):
        return None
    _put_part(tx, turn, reply, (part, OutboundPart(""), True), now)
    tx.run(
        "UPDATE outbox SET state = 'streaming', preview_lost = 1, maybe_duplicate = 1"
        " WHERE delivery_id = ? AND part = ? AND state = 'pending'",
        page,
    )
    return PreviewRow(None, lost=False)


def set_preview(
    tx: Transaction, delivery_id: str, part: int, provider_message_id: str | None
) -> None:
    """Store the result of the first send of a preview's page.

    From now on, the part is an edit of that message. None means that the message certainly did not
    arrive.
    """
    tx.run(
        "UPDATE outbox SET provider_message_id = ?, preview_lost = 0, maybe_duplicate = 0"
        " WHERE delivery_id = ? AND part = ?",
        (provider_message_id, delivery_id, part),
    )


def head(tx: Transaction, lane: str, now: float) -> PendingPart | float | None:
    """Return the first row of a route, or the time at which it is due, or None."""
    row = tx.first(
        f"SELECT {_COLUMNS}, {_EDITED} FROM outbox WHERE lane = ? AND {UNSENT}"
        " ORDER BY seq LIMIT 1",
        (lane,),
    )
    if row is None:
        return None
    next_at = float(row[-2])
    return next_at if next_at > now else _due(tx, row)


def set_outcome(tx: Transaction, delivery_id: str, lane: str, outcome: str) -> None:
    """Set the outcome of a delivery if it goes to this lane."""
    tx.run(
        "UPDATE outbox SET outcome = ? WHERE delivery_id = ? AND lane = ? AND is_last = 1",
        (outcome, delivery_id, lane),
    )


def take(tx: Transaction, seq: int) -> None:
    """Mark the row as in flight: after a later crash, it is unknown whether it arrived."""
    tx.run(
        "UPDATE outbox SET state = 'inflight', provider_message_id = coalesce(provider_message_id,"
        f" {_EDITED}) WHERE seq = ?",
        (seq,),
    )


def take_first(tx: Transaction, delivery_id: str) -> PendingPart | None:
    """Take the delivery's first part into flight; None while other messages wait before it."""
    row = tx.first(
        "UPDATE outbox SET state = 'inflight' WHERE delivery_id = ? AND part = 0"
        " AND state = 'pending' AND edits IS NULL AND NOT EXISTS (SELECT 1 FROM outbox o"
        f" WHERE o.lane = outbox.lane AND o.{UNSENT} AND o.seq < outbox.seq)"
        f" RETURNING {_COLUMNS}",
        (delivery_id,),
    )
    return None if row is None else _due(tx, [*row, None])


def sent(
    tx: Transaction, seq: int, provider_message_id: str, lane: str, now: float
) -> PendingPart | float | None:
    """Mark the row as sent; return the route's next `head`."""
    set_sent(tx, seq, provider_message_id)
    return head(tx, lane, now)


def reschedule(
    tx: Transaction, seq: int, next_at: float, *, ambiguous: bool, rest_s: float = 0.0
) -> None:
    """Try the row again later, after `rest_s`; an ambiguous attempt may have arrived.

    Attempts are counted here and not by `take`, because a route also pauses without an attempt.
    """
    tx.run(
        "UPDATE outbox SET state = 'pending', next_at = ?, attempts = attempts + 1,"
        " ambiguous_attempts = ambiguous_attempts + ?, maybe_duplicate ="
        " CASE WHEN ? = 1 AND provider_message_id IS NULL THEN 1 ELSE maybe_duplicate END,"
        " waited_s = waited_s + ? WHERE seq = ?",
        (next_at, ambiguous, ambiguous, rest_s, seq),
    )


def make_plain(tx: Transaction, seq: int) -> None:
    """Remove formatting that the platform rejected: send the text plain and without links."""
    _, message = _stored_part(tx, seq)
    replace_content(tx, seq, plain_part(message.content))


def replace_content(tx: Transaction, seq: int, content: OutboundPart) -> None:
    """Replace content that the platform rejected."""
    place, message = _stored_part(tx, seq)
    codecs.put_part(tx, seq, place, message.kind, content)
    tx.run("UPDATE outbox SET state = 'pending', next_at = 0 WHERE seq = ?", (seq,))


def put_behind(tx: Transaction, seq: int, reply: OutgoingReply, now: float) -> None:
    """Queue a continuation of the message in this row, for the same turn.

    It is inserted before the rows that wait after the message on its route.
    """
    turn, lane = tx.one("SELECT turn_id, lane FROM outbox WHERE seq = ?", (seq,))
    later = f"SELECT seq FROM outbox WHERE lane = ? AND seq > ? AND {UNSENT} ORDER BY seq"
    waiting = tx.all(later, (lane, seq))
    put(tx, turn, [reply], now)
    numbers = [number for (number,) in tx.all(later, (lane, seq))]
    # The rows share their existing numbers, because watchers rely on increasing numbers.
    added = [number for number in numbers if (number,) not in waiting]
    order = [*added, *(number for (number,) in waiting)]
    tx.many("UPDATE outbox SET seq = ? WHERE seq = ?", [(-number, number) for number in order])
    renumbered = zip(numbers, order, strict=True)
    tx.many("UPDATE outbox SET seq = ? WHERE seq = ?", [(new, -old) for new, old in renumbered])


def leave_topic(tx: Transaction, seq: int) -> None:
    """Send the part to the chat itself, because its topic accepts no more messages."""
    place, message = _stored_part(tx, seq)
    codecs.put_part(tx, seq, (*place[:-1], None), message.kind, message.content)
    tx.run(
        "UPDATE outbox SET thread = NULL, reply_to = NULL, provider_message_id = NULL, edits"
        " = NULL,"
        " state = 'pending', next_at = 0 WHERE seq = ?",
        (seq,),
    )


def _stored_part(tx: Transaction, seq: int) -> tuple[tuple[Any, ...], OutboundMessage]:
    """Return the part in this row, and its place for `codecs.columns_of_part`."""
    row = tx.one(f"SELECT {_COLUMNS} FROM outbox WHERE seq = ?", (seq,))
    message = _due(tx, [*row, None]).message
    data = dict(zip(_COLUMN_NAMES, row, strict=True))
    names = ("delivery_id", "part", *codecs.PART_ROUTE.split(", "))
    return tuple(data[name] for name in names), message


def make_new(tx: Transaction, seq: int) -> None:
    """Send the part as a new message, because the message to edit is gone."""
    tx.run(
        "UPDATE outbox SET provider_message_id = NULL, edits = NULL, state = 'pending',"
        " next_at = 0,"
        " ambiguous_attempts = 0 WHERE seq = ?",
        (seq,),
    )


def give_up(tx: Transaction, seq: int, reason: str, *, whole_lane: bool = False) -> int:
    """Give up a row that no retry can deliver; `whole_lane` also ends all waiting rows of the chat.

    Returns the number of parts given up.
    """
    ended = tx.all(
        "UPDATE outbox SET state = 'dead', dead_reason = ? WHERE seq = ? OR"
        f" (? = 1 AND lane = (SELECT lane FROM outbox WHERE seq = ?) AND {UNSENT})"
        " RETURNING seq, delivery_id",
        (reason, seq, whole_lane, seq),
    )
    return forget_codes(tx, ended)


def drop_unsent(tx: Transaction, delivery_id: str, reason: str) -> bool:
    """End a delivery that was never attempted; return False if it may have been seen."""
    unsent = tx.all(
        "UPDATE outbox SET state = 'dead', dead_reason = ? WHERE delivery_id = ?"
        " AND state = 'pending' AND attempts = 0 AND maybe_duplicate = 0"
        " RETURNING seq, delivery_id",
        (reason, delivery_id),
    )
    (alive,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM outbox WHERE delivery_id = ? AND state <> 'dead')",
        (delivery_id,),
    )
    return forget_codes(tx, unsent) > 0 or not alive


def route_of(tx: Transaction, delivery_id: str) -> Route | None:
    """Return the route of a delivery; None for an unknown name."""
    row = tx.first(
        "SELECT channel, account, chat, thread FROM outbox WHERE delivery_id = ? AND part = 0",
        (delivery_id,),
    )
    return Route(*row) if row else None


def question_below(tx: Transaction, lane: str, provider_message_id: str) -> int | None:
    """Return the number of the question in one of Kore's messages; None for other messages."""
    row = tx.first(
        "SELECT delivery_id FROM outbox WHERE provider_message_id = ? AND lane = ?"
        " AND kind = 'approval' ORDER BY seq DESC LIMIT 1",
        (provider_message_id, lane),
    )
    number = row[0].removeprefix("q") if row else ""
    return int(number) if number.isdecimal() else None


def question_of(tx: Transaction, lane: str, provider_message_id: str) -> int | None:
    """Return the number like `question_below`, even if the message already shows the decision."""
    row = tx.first(
        "SELECT delivery_id FROM outbox WHERE provider_message_id = ? AND lane = ?"
        " AND kind = 'approval' ORDER BY seq LIMIT 1",
        (provider_message_id, lane),
    )
    number = row[0].removeprefix("q").partition(".")[0] if row else ""
    return int(number) if number.isdecimal() else None


def due_now(tx: Transaction, lane: str) -> None:
    """Make the lane's postponed rows due immediately, because it has a viewer again."""
    tx.run(
        f"UPDATE outbox SET next_at = 0 WHERE lane = ? AND {UNSENT} AND state = 'pending'", (lane,)
    )


def has_mail(tx: Transaction, lane: str) -> bool:
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM outbox WHERE lane = ? AND {UNSENT})",
        (lane,),
    )
    return bool(exists)


def lanes_with_mail(tx: Transaction) -> list[str]:
    """Return the routes with waiting messages in this process's channels."""
    rows = tx.all(f"SELECT DISTINCT lane FROM outbox WHERE {UNSENT} AND {run_here('outbox')}")
    return [lane for (lane,) in rows]


def recover(tx: Transaction, latest_at: float = inf) -> int:
    """Queue rows in flight again, marked as possible duplicates, except edits.

    Rows that are due later than `latest_at` become due now, because the clock was set back
    meanwhile. Rows of other processes' channels are left to those processes.
    """
    own = run_here("outbox")
    tx.run(
        f"UPDATE outbox SET state = 'pending', next_at = 0 WHERE {UNSENT} AND state = 'inflight'"
        f" AND provider_message_id IS NOT NULL AND {own}"
    )
    tx.run(f"UPDATE outbox SET next_at = 0 WHERE {UNSENT} AND next_at > ? AND {own}", (latest_at,))
    return tx.run(
        "UPDATE outbox SET state = 'pending', next_at = 0, maybe_duplicate = 1,"
        f" ambiguous_attempts = ambiguous_attempts + 1 WHERE {UNSENT} AND state = 'inflight'"
        f" AND {own}"
    )


def _due(tx: Transaction, row: Sequence[Any]) -> PendingPart:
    *own, edited = row
    data = dict(zip(_COLUMN_NAMES, own, strict=True))
    route = Route(data["channel"], data["account"], data["chat"], data["thread"])
    message = OutboundMessage(
        delivery_id=data["delivery_id"],
        part=data["part"],
        route=route,
        content=codecs.part_from_row(tx, data),
        kind=data["kind"],
        reply_to=data["reply_to"],
        provider_message_id=data["provider_message_id"] or edited,
        maybe_duplicate=bool(data["maybe_duplicate"]),
        # An attempt to send the reply itself that may have arrived takes precedence.
        preview_lost=bool(data["preview_lost"]) and not data["ambiguous_attempts"],
        event_id=data["event_id"],
        last=bool(data["is_last"]),
        strayed=data["lane"] != route.lane,
        seq=data["seq"],
        outcome=data["outcome"],
    )
    # Only a message with a known id can have been filled by a preview.
    is_previewed = bool(data["is_shown"]) and data["provider_message_id"] is not None
    return PendingPart(
        data["seq"],
        message,
        data["attempts"],
        data["ambiguous_attempts"],
        data["waited_s"],
        is_previewed,
    )


def handed_out_after(tx: Transaction, lane: str, after: int, limit: int) -> list[OutboundMessage]:
    """Return parts with numbers above `after` that a watcher of the lane may have received."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM outbox WHERE lane = ? AND seq > ?"
        " AND state IN ('inflight', 'sent') ORDER BY seq LIMIT ?",
        (lane, after, limit),
    )
    return [_due(tx, [*row, None]).message for row in rows]


def last_before_news(tx: Transaction, lane: str) -> int:
    """Return the number after which a new watcher of the lane has to see all messages."""
    (number,) = tx.one(
        f"SELECT coalesce((SELECT min(seq) - 1 FROM outbox WHERE lane = ? AND {UNSENT}),"
        " (SELECT max(seq) FROM outbox WHERE state <> 'streaming'), 0)",
        (lane,),
    )
    return int(number)


def give_up_unreadable(tx: Transaction, lane: str, reason: str) -> int:
    """End the first row of a route without reading it; return the number of ended rows."""
    ended = tx.all(
        "UPDATE outbox SET state = 'dead', dead_reason = ? WHERE seq = (SELECT min(seq) FROM outbox"
        " WHERE lane = ? AND state IN ('pending', 'inflight')) RETURNING seq, delivery_id",
        (reason, lane),
    )
    return forget_codes(tx, ended)


def set_sent(tx: Transaction, seq: int, provider_message_id: str) -> None:
    """Mark the row as sent, without reading the next row."""
    ended = tx.all(
        "UPDATE outbox SET state = 'sent', provider_message_id = ? WHERE seq = ?"
        " RETURNING seq, delivery_id",
        (provider_message_id, seq),
    )
    forget_codes(tx, ended)


def files_to_send(tx: Transaction) -> list[dict[str, Any]]:
    """Return the stored files of messages that still have to be sent."""
    rows = tx.all(
        f"SELECT files, delivery_id, part, {codecs.PART_ROUTE} FROM outbox"
        " WHERE state IN ('pending', 'inflight') AND files NOT IN ('', '[]')"
    )
    return [file for row in rows for file in codecs.files_from_row(tx, *row)]


def forget_codes(tx: Transaction, ended: Sequence[Row]) -> int:
    """Empty the pairing messages among the parts that just ended; return the number of parts.

    `ended` contains `seq` and `delivery_id` of each part.
    """
    for seq, delivery_id in ended:
        if delivery_id.startswith(PAIRING):
            _forget_code(tx, seq)
    return len(ended)


def _forget_code(tx: Transaction, seq: int) -> None:
    """Empty a part. A broken part does not change, because a new seal would make it valid."""
    *place, kind, buttons, body = tx.one(
        f"SELECT delivery_id, part, {codecs.PART_ROUTE}, kind, buttons, body FROM outbox"
        " WHERE seq = ?",
        (seq,),
    )
    with suppress(SealBroken):
        tx.unseal(body, "outbox.body", *place, kind, buttons)
        codecs.put_part(tx, seq, place, kind, OutboundPart(""))
