"""What a lane does next: an unfinished turn, a command, or a new turn for what waits there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from sqlite3 import Connection

from agent.types import Message, Taint
from gateway.messages import InboundMessage
from gateway.store import approvals, sessions
from gateway.store.inbox import LIVE, PAYLOAD, WAITING

# More than this many waiting messages of one lane are joined into its next turn.
LANE_LIMIT = 50
# A turn that was started this often without a new step is given up.
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn to run, for these messages (oldest first; `seq` is the first one's row).

    `resumed`: it goes on. `exhausted`: it was started `ATTEMPTS` times without getting any further.
    `model` is the one that its session has chosen, `taint` what it has taken in.
    """

    turn: int
    seq: int
    session: str
    messages: tuple[InboundMessage, ...]
    resumed: bool = False
    stop_requested: bool = False
    exhausted: bool = False
    model: str | None = None
    mode: str | None = None
    taint: frozenset[Taint] = frozenset()


@dataclass(frozen=True, slots=True)
class CommandClaim:
    """A chat command at the head of a lane; it is finished by `turns.finish_command`."""

    seq: int
    message: InboundMessage
    session: str | None


@dataclass(frozen=True, slots=True)
class Busy:
    """The lane must wait for its session's turn on another one; `waits`: that turn, too."""

    lane: str
    waits: bool = False


def claim(
    connection: Connection,
    lane: str,
    now: float,
    is_command: Callable[[InboundMessage], bool],
    compose: Callable[[Sequence[InboundMessage]], Message],
) -> Claim | CommandClaim | Busy | None:
    """Take the next thing to do on a lane: an unfinished turn, a command, or a new turn.

    A new turn stores its user message, made by `compose`. None also while an answer is awaited.
    """
    resumed = _resume(connection, lane)
    if resumed:
        return resumed
    if approvals.is_awaited(connection, lane):
        return None
    waiting = _waiting(connection, lane)
    if not waiting:
        return None
    (seq, message), *_ = waiting
    session = sessions.bound_session(connection, lane)
    if is_command(message):
        return CommandClaim(seq, message, session)
    if session is None:
        session = sessions.create_session(connection, message.principal, now, lane=lane)
    busy = connection.execute(
        f"SELECT lane, state = 'waiting' FROM turn WHERE session = ? AND {LIVE}", (session,)
    ).fetchone()
    if busy:
        return Busy(busy[0], bool(busy[1]))
    joined = list(takewhile(lambda row: not is_command(row[1]), waiting))
    messages = tuple(message for _, message in joined)
    turn = connection.execute(
        "INSERT INTO turn (session, lane, state, progress, created_at)"
        " VALUES (?, ?, 'running', 1, ?)",
        (session, lane, now),
    ).lastrowid
    assert turn is not None, "an INSERT has a row id"
    connection.executemany(
        "UPDATE inbox SET turn_id = ? WHERE seq = ?", [(turn, seq) for seq, _ in joined]
    )
    sessions.append_messages(connection, session, turn, [compose(messages)], now)
    return Claim(
        turn,
        seq,
        session,
        messages,
        model=sessions.chosen_model(connection, session),
        mode=sessions.chosen_mode(connection, session),
        taint=sessions.taint_of(connection, session),
    )


def _resume(connection: Connection, lane: str) -> Claim | None:
    """The lane's unfinished turn. Starting it again without a new step costs an attempt."""
    row = connection.execute(
        "SELECT id, session, stop_requested, attempts, progress, suspended,"
        " (SELECT count(*) FROM message WHERE turn_id = turn.id) +"
        " (SELECT count(*) FROM step WHERE turn_id = turn.id AND state IN ('done', 'unknown'))"
        " FROM turn WHERE lane = ? AND state = 'running'",
        (lane,),
    ).fetchone()
    if row is None:
        return None
    turn, session, stop, attempts, progress, suspended, steps = row
    if not suspended:
        attempts = attempts + 1 if steps == progress else 1
    connection.execute(
        "UPDATE turn SET attempts = ?, progress = ?, suspended = 0 WHERE id = ?",
        (attempts, steps, turn),
    )
    # A call that had started when the turn was cut off may have had its effect.
    connection.execute(
        "UPDATE step SET state = iif(effect = 'unsafe', 'unknown', 'planned')"
        " WHERE turn_id = ? AND state = 'started'",
        (turn,),
    )
    rows = connection.execute(
        f"SELECT seq, {PAYLOAD} FROM inbox WHERE turn_id = ? ORDER BY seq", (turn,)
    ).fetchall()
    return Claim(
        turn=turn,
        seq=rows[0][0],
        session=session,
        messages=tuple(InboundMessage.from_json(payload) for _, payload in rows),
        resumed=True,
        stop_requested=bool(stop),
        exhausted=attempts > ATTEMPTS,
        model=sessions.chosen_model(connection, session),
        mode=sessions.chosen_mode(connection, session),
        taint=sessions.taint_of(connection, session),
    )


def _waiting(connection: Connection, lane: str) -> list[tuple[int, InboundMessage]]:
    """The lane's next message; the ones behind it too, as far as the lane is over its limit."""
    (total,) = connection.execute(
        f"SELECT count(*) FROM inbox WHERE lane = ? AND {WAITING}", (lane,)
    ).fetchone()
    rows = connection.execute(
        f"SELECT seq, {PAYLOAD} FROM inbox WHERE lane = ? AND {WAITING} ORDER BY seq LIMIT ?",
        (lane, max(1, total - LANE_LIMIT + 1)),
    )
    return [(seq, InboundMessage.from_json(payload)) for seq, payload in rows]
