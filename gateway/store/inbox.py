"""What came in: accepted once, claimed in order, one live turn per lane and session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from sqlite3 import Connection

from agent.types import Message, Taint
from gateway.messages import InboundMessage
from gateway.store import approvals, sessions

# More than this many waiting messages of one lane are joined into its next turn.
LANE_LIMIT = 50
# A turn that was started this often without a new step is given up.
ATTEMPTS = 3
# Why a stranger's message is a tombstone.
DENIED = "not on the allow-list"
WAITING = "turn_id IS NULL AND dead_reason IS NULL"
LIVE = "state IN ('running', 'waiting')"
_PAYLOAD = "unseal(payload, 'inbox.payload', channel, account, event_id)"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as it is stored; with a `dead_reason` it is a tombstone that nobody acts on."""

    message: InboundMessage
    dead_reason: str | None = None


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


@dataclass(frozen=True, slots=True)
class Arrival:
    """The account that a batch came by, its cursor, and the time in Unix seconds."""

    channel: str
    account: str
    now: float
    next_offset: int | None = None


def accept(
    connection: Connection,
    arrival: Arrival,
    entries: Sequence[Entry],
    dead: Sequence[tuple[str, str]] = (),
) -> set[str]:
    """Store all that a poll brought, and its cursor; returns the lanes that have new work."""
    lanes = set()
    for entry in entries:
        if is_known(connection, entry.message):
            continue
        dead_reason = entry.dead_reason
        if entry.message.edited and dead_reason is None:
            dead_reason = _apply_edit(connection, entry.message)
        _insert(connection, entry.message, dead_reason)
        if dead_reason is None:
            lanes.add(entry.message.session_key)
    for event_id, reason in dead:
        key = (arrival.channel, arrival.account, event_id)
        connection.execute(
            "INSERT OR IGNORE INTO inbox (channel, account, event_id, lane, principal, payload,"
            " received_at, dead_reason)"
            " VALUES (?, ?, ?, '', '', seal('{}', 'inbox.payload', ?, ?, ?), ?, ?)",
            (*key, *key, arrival.now, reason),
        )
    if arrival.next_offset is not None:
        connection.execute(
            "INSERT INTO cursor (channel, account, next_offset, seen_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset,"
            " seen_at = excluded.seen_at",
            (arrival.channel, arrival.account, arrival.next_offset, arrival.now),
        )
    return lanes


def is_known(connection: Connection, message: InboundMessage) -> bool:
    """True when the platform has delivered this before."""
    (known,) = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM inbox WHERE channel = ? AND account = ? AND event_id = ?)",
        (message.channel, message.account, message.event_id),
    ).fetchone()
    return bool(known)


def cursor(connection: Connection, channel: str, account: str, not_before: float) -> int | None:
    """Where to go on polling; None when nothing came since `not_before`.

    A platform may start its numbers anew after a quiet week, and an old cursor would then hide
    messages. Without one it sends what it still has; the unique key absorbs what we know.
    """
    row = connection.execute(
        "SELECT next_offset FROM cursor WHERE channel = ? AND account = ? AND seen_at >= ?",
        (channel, account, not_before),
    ).fetchone()
    return row[0] if row else None


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
    session = bound_session(connection, lane)
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
        f"SELECT seq, {_PAYLOAD} FROM inbox WHERE turn_id = ? ORDER BY seq", (turn,)
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


def bound_session(connection: Connection, lane: str) -> str | None:
    row = connection.execute("SELECT session FROM binding WHERE lane = ?", (lane,)).fetchone()
    return row[0] if row else None


def waiting_count(connection: Connection) -> int:
    row = connection.execute(f"SELECT count(*) FROM inbox WHERE {WAITING}").fetchone()
    return int(row[0])


def has_work(connection: Connection, lane: str) -> bool:
    (found,) = connection.execute(
        f"SELECT EXISTS (SELECT 1 FROM turn WHERE lane = :lane AND {LIVE}) OR"
        f" EXISTS (SELECT 1 FROM inbox WHERE lane = :lane AND {WAITING})",
        {"lane": lane},
    ).fetchone()
    return bool(found)


def lanes_with_work(connection: Connection) -> list[str]:
    """Lanes with a turn to go on with, or with messages that wait."""
    rows = connection.execute(
        "SELECT lane FROM turn WHERE state = 'running' UNION"
        f" SELECT DISTINCT lane FROM inbox WHERE {WAITING}"
    )
    return [lane for (lane,) in rows]


def _insert(connection: Connection, message: InboundMessage, dead_reason: str | None) -> None:
    source = f"{message.chat_id}:{message.message_id}" if message.message_id else None
    key = (message.channel, message.account, message.event_id)
    entry = (*key, source, message.session_key, message.principal, message.to_json(), *key)
    connection.execute(
        "INSERT INTO inbox (channel, account, event_id, source_msg, lane, principal, payload,"
        " received_at, dead_reason)"
        " VALUES (?, ?, ?, ?, ?, ?, seal(?, 'inbox.payload', ?, ?, ?), ?, ?)",
        (*entry, message.received_at, dead_reason),
    )


def _apply_edit(connection: Connection, edit: InboundMessage) -> str | None:
    """Replace the text of a message that waits; returns why the edit itself needs no answer."""
    row = connection.execute(
        f"SELECT seq, {_PAYLOAD}, turn_id IS NULL AND dead_reason IS NULL FROM inbox"
        " WHERE channel = ? AND account = ? AND source_msg = ? ORDER BY 3 DESC, seq DESC LIMIT 1",
        (edit.channel, edit.account, f"{edit.chat_id}:{edit.message_id}"),
    ).fetchone()
    if row is None:
        return None
    seq, payload, waits = row
    if InboundMessage.from_json(payload).content == edit.content:
        return "edit changes nothing"
    if waits:
        connection.execute(
            "UPDATE inbox SET payload = seal(?, 'inbox.payload', channel, account, event_id)"
            " WHERE seq = ?",
            (edit.to_json(), seq),
        )
        return f"edit of {seq}"
    return None


def _waiting(connection: Connection, lane: str) -> list[tuple[int, InboundMessage]]:
    """The lane's next message; the ones behind it too, as far as the lane is over its limit."""
    (total,) = connection.execute(
        f"SELECT count(*) FROM inbox WHERE lane = ? AND {WAITING}", (lane,)
    ).fetchone()
    rows = connection.execute(
        f"SELECT seq, {_PAYLOAD} FROM inbox WHERE lane = ? AND {WAITING} ORDER BY seq LIMIT ?",
        (lane, max(1, total - LANE_LIMIT + 1)),
    )
    return [(seq, InboundMessage.from_json(payload)) for seq, payload in rows]
