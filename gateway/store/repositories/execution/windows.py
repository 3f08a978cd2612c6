"""Window of a session: the messages that may still be sent to the model, and the summary of earlier
messages.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.context.compaction.compactor import Conversation, shorten_old_result
from agent.context.compaction.summarizer import summary_from_json, summary_to_json
from agent.context.token_budget import FULL_AT_MESSAGES
from agent.records import frozen
from agent.serialization import dumps
from agent.types import Message
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply

if TYPE_CHECKING:
    from agent.context.compaction.compactor import CompactionResult
    from agent.context.compaction.summarizer import Summary

# Minimum interval between announcements of summaries in a chat.
NOTICE_INTERVAL_S = 3600.0
# Maximum number of messages in a window, regardless of length, for an imported session or after
# repeated failures of summaries. It is twice the number that makes a window full.
MAX_MESSAGES = 2 * FULL_AT_MESSAGES


@dataclass(slots=True)
class SessionWindow:
    """A session's messages after `head`, preceded by the user message `request` if it is set.

    Both are message.n. `trimmed` means that older messages exist that no summary covers.
    """

    messages: list[Message]
    trimmed: bool
    head: int = 0
    request: int | None = None
    summary: "Summary | None" = None

    @property
    def conversation(self) -> Conversation:
        return Conversation(self.messages, self.trimmed, self.summary)

    def number(self, place: int) -> int:
        """Return the message.n of `messages[place]`."""
        if self.request is None:
            return self.head + place + 1
        return self.head + place if place else self.request

    def drop(self, count: int) -> None:
        """Drop the oldest messages without summarizing them."""
        self.head = max(self.head, self.number(count - 1))
        self.request = None
        self.trimmed = True
        del self.messages[:count]

    def shorten(self, shorter: "CompactionResult") -> None:
        """Apply a compaction that `keep` has stored."""
        messages = shorter.apply(self.messages)
        if shorter.split is not None:
            place, request = shorter.split.place, shorter.split.request
            number = None if request is None else self.number(request)
            self.head = max(self.head, self.number(place - 1))
            self.request, self.trimmed = number, False
        self.messages[:] = messages
        self.summary = shorter.summary


def load(tx: Transaction, session: str) -> SessionWindow:
    """Return the window of a session for a turn."""
    head, upto_pruned = tx.one("SELECT head, pruned_upto FROM session WHERE id = ?", (session,))
    head = _bounded(tx, session, head)
    summary_row = tx.first(
        "SELECT upto, request, content, taint FROM summary WHERE session = ? AND upto <= ?"
        " ORDER BY upto DESC LIMIT 1",
        (session, head),
    )
    request = summary_row[1] if summary_row and summary_row[0] == head else None
    rows = tx.all(
        f"SELECT {CONTENT} FROM message WHERE session = ? AND n > ?"
        f" UNION ALL SELECT {CONTENT} FROM message WHERE session = ? AND n = ?"
        " ORDER BY n",
        (session, head, session, request),
    )
    messages = [
        shorten_old_result(message) if n <= upto_pruned else message
        for n, message in ((row[1], message_from_row(tx, *row)) for row in rows)
    ]
    summary = None
    if summary_row:
        content = tx.unseal(
            summary_row[2], "summary.content", session, summary_row[0], summary_row[3]
        )
        summary = _summary(content, summary_row[3])
    return SessionWindow(
        messages, head > (summary_row[0] if summary_row else 0), head, request, summary
    )


def _bounded(tx: Transaction, session: str, head: int) -> int:
    """Return a start of the window that limits its number of messages."""
    (last,) = tx.one("SELECT coalesce(max(n), 0) FROM message WHERE session = ?", (session,))
    if last - head <= MAX_MESSAGES:
        return head
    mine = "FROM message WHERE session = ? AND role = 'user' AND n > ?"
    (begins,) = tx.one(
        # If a single round is longer than the limit, keep the whole round.
        f"SELECT coalesce((SELECT min(n) {mine} AND n > ?), (SELECT max(n) {mine}), 0)",
        (session, head, last - MAX_MESSAGES // 2, session, head),
    )
    head = max(head, begins - 1)
    tx.run("UPDATE session SET head = ? WHERE id = ?", (head, session))
    return head


@frozen
class StoredSummary:
    """Compaction of a window to store; `reply` announces it unless that happened recently."""

    session: str
    head: int
    upto: int
    request: int | None
    shorter: "CompactionResult"
    reply: OutgoingReply | None = None

    @classmethod
    def of(
        cls,
        session: str,
        window: SessionWindow,
        shorter: "CompactionResult",
        reply: OutgoingReply | None = None,
    ) -> "StoredSummary":
        cut = shorter.split
        place = cut.place if cut else shorter.shortened_count
        upto = max(window.head, window.number(place - 1))
        request = None if cut is None or cut.request is None else window.number(cut.request)
        return cls(session, window.head, upto, request, shorter, reply)


def keep(tx: Transaction, stored: StoredSummary, now: float) -> bool:
    """Store a compaction; return False if the session's window has changed since."""
    (head,) = tx.one("SELECT head FROM session WHERE id = ?", (stored.session,))
    if head != stored.head:
        return False
    summary = stored.shorter.summary
    if stored.shorter.split is None or summary is None:
        tx.run(
            "UPDATE session SET pruned_upto = ? WHERE id = ? AND pruned_upto < ?",
            (stored.upto, stored.session, stored.upto),
        )
        return True
    (announced_at,) = tx.one(
        "SELECT coalesce(max(created_at), 0) FROM summary WHERE session = ? AND is_announced = 1",
        (stored.session,),
    )
    reply = stored.reply if now - announced_at >= NOTICE_INTERVAL_S else None
    content = dumps(summary_to_json(summary))
    taint = ",".join(sorted(summary.taint))
    tx.run(
        "INSERT INTO summary (session, upto, request, content, taint, is_announced, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (session, upto) DO UPDATE SET request = excluded.request,"
        " content = excluded.content, taint = excluded.taint, is_announced = excluded.is_announced,"
        " created_at = excluded.created_at",
        (
            *(stored.session, stored.upto, stored.request),
            tx.seal(content, "summary.content", stored.session, stored.upto, taint),
            *(taint, reply is not None, now),
        ),
    )
    # The next request has a new prefix anyway, so it can read the current memory.
    tx.run("UPDATE session SET head = ?, memory = NULL WHERE id = ?", (stored.upto, stored.session))
    if reply is not None:
        outbox.put(tx, None, [reply], now)
    return True


def _summary(content: str, taint: str) -> "Summary":
    return summary_from_json(json.loads(content), taint_of_text(taint))
