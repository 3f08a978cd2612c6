"""Stored outcome of a message."""

from gateway.core.records import MessageOutcome
from gateway.store.port import Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.codecs import CONTENT, message_from_row


def find_outcome(tx: Transaction, channel: str, account: str, event_id: str) -> MessageOutcome:
    """Return the state of the turn that took the message in, and the model's text in it."""
    row = tx.first(
        "SELECT inbox.dead_reason, turn.id, turn.state,"
        " coalesce(turn.session, binding.session, '')"
        " FROM inbox LEFT JOIN turn ON turn.id = inbox.turn_id"
        " LEFT JOIN binding ON binding.lane = inbox.lane"
        " WHERE inbox.channel = ? AND inbox.account = ? AND inbox.event_id = ?",
        (channel, account, event_id),
    )
    if row is None:
        return MessageOutcome("unknown")
    reason, turn, state, session = row
    if turn is None and reason is None:
        return MessageOutcome("waiting", session=session)
    if turn is None or state == "dead":
        return MessageOutcome("dropped", reason or "dead", session=session)
    if state != "done":
        return MessageOutcome("running", session=session)
    rows = tx.all(
        f"SELECT {CONTENT} FROM message WHERE session = ? AND turn_id = ?"
        " AND role = 'assistant' ORDER BY n",
        (session, turn),
    )
    texts = [message_from_row(tx, *item).text for item in rows]
    text = "\n\n".join(name for name in texts if name)
    return MessageOutcome("done", "", text, session, usage.of_turn(tx, turn).usage)
