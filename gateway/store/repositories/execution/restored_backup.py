"""Restored backups, whose unfinished work may have been finished since the backup.

`mark` marks the copy; the next start closes its unfinished work, once.
"""

from collections.abc import Callable, Sequence

from gateway.core.messages import InboundMessage, OutboundPart
from gateway.store.conditions import LIVE, WAITING
from gateway.store.port import Transaction
from gateway.store.repositories import goals, preferences
from gateway.store.repositories.codecs import PAYLOAD, inbound_from_row
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import UNSENT, OutgoingReply, forget_codes
from gateway.store.repositories.execution import subagent_tasks, turns

REASON = "a backup from before its end was restored"


def mark(tx: Transaction, now: float) -> None:
    """Mark a copy as restored, before it replaces the database."""
    preferences.put_state(tx, preferences.RESTORED, repr(now))


def settle(tx: Transaction, now: float, notice: Callable[[Sequence[int]], str]) -> int:
    """Close unfinished work of the backup; return the number of messages.

    `notice` creates the text for each chat from the number of its messages. Unsent messages are
    marked as possible duplicates. No work continues, because its answer, or the effect of its next
    call, may already exist.
    """
    if preferences.get_state(tx, preferences.RESTORED) is None:
        return 0
    preferences.drop_state(tx, preferences.RESTORED)
    tx.run(
        f"UPDATE outbox SET maybe_duplicate = 1 WHERE {UNSENT} AND provider_message_id IS"
        " NULL AND edits IS NULL"
    )
    ended = tx.all(
        f"UPDATE outbox SET state = 'dead', dead_reason = ? WHERE {UNSENT} AND kind = 'approval'"
        " RETURNING seq, delivery_id",
        (REASON,),
    )
    forget_codes(tx, ended)
    subagent_tasks.abandon(tx, "", now)
    goals.pause_all(tx, "restored")
    closed = 0
    for (turn,) in tx.all(f"SELECT id FROM turn WHERE {LIVE}"):
        rows = _of_turn(tx, turn)
        tx.run(
            "UPDATE step SET state = 'unknown' WHERE turn_id = ? AND state = 'started'"
            " AND effect = 'unsafe'",
            (turn,),
        )
        event_id = rows[-1][1].event_id
        reply = _notice_reply(rows, f"t{turn}", notice, event_id=event_id)
        turns.give_up(tx, turn, [reply], REASON, now, cause="ended_early")
        closed += len(rows)
    return closed + _withdraw(tx, now, notice)


def _withdraw(tx: Transaction, now: float, notice: Callable[[Sequence[int]], str]) -> int:
    """Withdraw waiting messages, which Kore may have answered after the backup was made."""
    rows = tx.all(f"SELECT seq, {PAYLOAD} FROM inbox WHERE {WAITING}")
    by_lane: dict[str, list[tuple[int, InboundMessage]]] = {}
    for seq, *columns in sorted(rows):
        message = inbound_from_row(tx, *columns)
        by_lane.setdefault(message.session_key, []).append((seq, message))
    for lane, waiting in by_lane.items():
        name = f"restored:{lane}:{waiting[0][0]}"
        outbox.put(tx, None, [_notice_reply(waiting, name, notice)], now)
    tx.run(f"UPDATE inbox SET dead_reason = ? WHERE {WAITING}", (REASON,))
    return len(rows)


def _of_turn(tx: Transaction, turn: int) -> list[tuple[int, InboundMessage]]:
    rows = tx.all(f"SELECT seq, {PAYLOAD} FROM inbox WHERE turn_id = ? ORDER BY seq", (turn,))
    return [(seq, inbound_from_row(tx, *columns)) for seq, *columns in rows]


def _notice_reply(
    rows: Sequence[tuple[int, InboundMessage]],
    name: str,
    notice: Callable[[Sequence[int]], str],
    *,
    event_id: str | None = None,
) -> OutgoingReply:
    part = OutboundPart(notice([seq for seq, _ in rows]))
    message = rows[-1][1]
    return OutgoingReply(name, message.route, [part], reply_to=message.answer_to, event_id=event_id)
