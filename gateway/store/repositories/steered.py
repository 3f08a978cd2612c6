"""Messages that join a turn which runs already."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from sqlite3 import Connection

from agent.records import frozen
from agent.types import Message, Taint
from gateway.core.messages import InboundMessage
from gateway.store.repositories import backlog, sessions
from gateway.store.repositories.claims import TurnClaim
from gateway.store.repositories.quotes import taint_of_quotes


@frozen
class Joining:
    """What the store does not know of messages: which command, how several are one for the model,
    and what they bring into the session."""

    is_command: Callable[[InboundMessage], bool]
    compose: Callable[..., Message]
    taint: Callable[[Sequence[InboundMessage]], frozenset[Taint]]
    burst: bool = False  # whether they followed the turn's first message at once


@frozen
class SteeredMessages:
    """Messages that have joined a running turn, and what its history has grown by."""

    messages: list[InboundMessage]
    stored: list[Message]
    taint: frozenset[Taint]


def join_running_turn(
    connection: Connection,
    claim: TurnClaim,
    results: Sequence[Message],
    joining: Joining,
    now: float,
) -> SteeredMessages | None:
    """Put what waits behind a running turn into it, if its conversation is steered, or joins
    messages and this is a burst before anything was done; None if not.

    The rows, the taint they bring and the history change in this transaction. `results` are those
    of the last reply's calls that the history does not hold yet: they stand in front.
    """
    mode = sessions.queue_mode(connection, claim.session)
    if mode != ("join" if joining.burst else "steer"):
        return None
    lane = claim.messages[0].session_key
    bound = sessions.bound_session(connection, lane)
    (runs,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM turn WHERE id = ? AND state = 'running'"
        " AND NOT stop_requested AND (? = 'steer' OR NOT EXISTS"
        " (SELECT 1 FROM step WHERE turn_id = turn.id)))",
        (claim.turn, mode),
    ).fetchone()
    if not runs:
        return None

    def joins(message: InboundMessage) -> bool:
        is_of_it = (backlog.session_of_message(message) or bound) == claim.session
        return is_of_it and not joining.is_command(message)

    waiting = backlog.waiting_rows(connection, lane, together=True)
    rows = list(takewhile(lambda row: joins(row[1]), waiting))
    if not rows:
        return None
    messages = [message for _, message in rows]
    connection.executemany(
        "UPDATE inbox SET turn_id = ? WHERE seq = ?", [(claim.turn, seq) for seq, _ in rows]
    )
    said = [*results, joining.compose(messages, steering=mode == "steer")]
    sessions.append_messages(connection, claim.session, claim.turn, said, now)
    taint = joining.taint(messages) | taint_of_quotes(connection, messages)
    sessions.add_taint(connection, claim.session, taint)
    return SteeredMessages(messages, said, taint)
