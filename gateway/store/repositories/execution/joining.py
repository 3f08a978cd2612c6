"""Messages that join a running turn."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from agent.records import frozen
from agent.types import Message, Taint
from gateway.core.messages import InboundMessage
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import taint_of_quotes
from gateway.store.repositories.execution.claims import TurnClaim


@frozen
class Joining:
    """Functions on messages that the store does not implement itself.

    `is_command` finds commands, `compose` merges several messages for the model, and `taint`
    returns the taint that they bring into the session.
    """

    is_command: Callable[[InboundMessage], bool]
    compose: Callable[..., Message]
    taint: Callable[[Sequence[InboundMessage]], frozenset[Taint]]
    burst: bool = False  # True if they followed the first message at once


@frozen
class SteeredMessages:
    """Messages that have joined a running turn, and the additions to its history."""

    messages: list[InboundMessage]
    stored: list[Message]
    taint: frozenset[Taint]


def join_running_turn(
    tx: Transaction,
    claim: TurnClaim,
    results: Sequence[Message],
    joining: Joining,
    now: float,
) -> SteeredMessages | None:
    """Add waiting messages to a running turn; returns None when there are none.

    Messages join if the conversation is steered, or if it joins messages and this is a burst before
    anything was done; otherwise only reports of its own background commands join. The rows, their
    taint and the history change in this transaction. `results` are those of the last reply's calls
    that are not in the history yet; they come before the messages.
    """
    mode = sessions.queue_mode(tx, claim.session)
    if joining.burst and mode != "join":
        return None
    reports_only = not joining.burst and mode != "steer"
    lane = claim.messages[0].session_key
    bound = sessions.bound_session(tx, lane)
    (runs,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM turn WHERE id = ? AND state = 'running'"
        " AND stop_requested = 0 AND (? = 1 OR NOT EXISTS"
        " (SELECT 1 FROM step WHERE turn_id = turn.id)))",
        (claim.turn, not joining.burst),
    )
    if not runs:
        return None

    def joins(message: InboundMessage) -> bool:
        is_of_it = (inbox.session_of_message(message) or bound) == claim.session
        return is_of_it and not joining.is_command(message)

    waiting = inbox.waiting_rows(tx, lane, together=True)
    if reports_only:
        rows = [row for row in waiting if row[1].kind == "command_report" and joins(row[1])]
    else:
        rows = list(takewhile(lambda row: joins(row[1]), waiting))
    if not rows:
        return None
    messages = [message for _, message in rows]
    for seq, _ in rows:
        tx.run("UPDATE inbox SET turn_id = ? WHERE seq = ?", (claim.turn, seq))
    new_messages = [*results, joining.compose(messages, steering=mode == "steer")]
    sessions.append_messages(tx, claim.session, claim.turn, new_messages, now)
    taint = joining.taint(messages) | taint_of_quotes(tx, messages)
    sessions.add_taint(tx, claim.session, taint)
    return SteeredMessages(messages, new_messages, taint)
