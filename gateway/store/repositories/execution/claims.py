"""Claims of a lane's next work: an unfinished turn, a command, or a new turn.

Messages may also join a running turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from itertools import groupby, takewhile

from agent.context.memory_snapshot import MemorySnapshot
from agent.context.project.session_projects import find_repeats
from agent.records import frozen
from agent.security.policy.base import is_mode
from agent.types import Context, Message, Taint
from gateway.core.messages import InboundMessage, QueueMode
from gateway.store.conditions import LIVE, RUNNING, WAITING
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import (
    TURN_RUN_HERE,
    as_queue_mode,
    queue_default,
)
from gateway.store.repositories.codecs import PAYLOAD, inbound_from_row
from gateway.store.repositories.conversations import session_folders, sessions
from gateway.store.repositories.conversations.choices import QUEUE, StoredChoices
from gateway.store.repositories.conversations.sessions import SessionRow
from gateway.store.repositories.delivery import chats, inbox
from gateway.store.repositories.delivery.inbox import (
    LANE_LIMIT,
    LANE_RUN_HERE,
    taint_of_quotes,
)
from gateway.store.repositories.execution import subagent_tasks, windows

# A turn that ended the process this many times without a new step is given up.
MAX_ATTEMPTS = 3


_STEPS = (
    "(SELECT count(*) FROM message WHERE turn_id = turn.id) +"
    " (SELECT count(*) FROM step WHERE turn_id = turn.id AND state IN ('done', 'unknown'))"
)
# A turn that was interrupted this many times without a new step, alone or with others, is a
# suspect.
SUSPECT_AFTER = 2
# Number of interruptions of a turn.
CUTS = "attempts - 1 + interruptions"


@frozen
class TurnClaim:
    """A turn to run, for these messages (oldest first; `seq` is the row of the first).

    `messages` grows when a person steers the turn. `stored` counts the turn's messages in the
    history, starting with the request. `resumed` means that the turn continues; `exhausted` that it
    ended the process `MAX_ATTEMPTS` times without progress. `user_message` is the stored message of
    a new turn; `begins` is the title of the session if this is its first turn. `memory`, `taint`
    and `file_views` (the record of seen files) belong to the session; `folder_identity` identifies
    the folder of its last turn.
    """

    turn: int
    seq: int
    session: str
    messages: list[InboundMessage]
    resumed: bool = False
    stop_requested: bool = False
    exhausted: bool = False
    choices: StoredChoices = field(default_factory=StoredChoices)
    mode: str | None = None
    taint: frozenset[Taint] = frozenset()
    # Bits that choices have revealed to strangers since a person's last message there.
    bits: float = 0
    stored: int = 1
    user_message: Message | None = None
    begins: str | None = None
    memory: MemorySnapshot | None = None
    file_views: str | None = None
    folder_identity: str | None = None

    @property
    def reply_to(self) -> str | None:
        """Message that the answer replies to, in a group."""
        return self.messages[-1].answer_to


@frozen
class CommandClaim:
    """A chat command at the head of a lane; it is finished by `turns.finish_command`.

    The check of a goal is claimed in the same way, and so are a goal's messages after the lane has
    left their session.
    """

    seq: int
    message: InboundMessage
    session: str | None


@frozen
class SessionBusy:
    """Error: the lane must wait for its session's turn on another lane; `waits`: that turn waits,
    too.
    """

    lane: str
    waits: bool = False


# Number of the owner of the data, among the processes that run turns.
OWNER = 0


@frozen
class HeldElsewhere:
    """Error: the lane's work belongs to another process.

    `worker` is its number, `OWNER`, or None for any process that takes it.
    """

    worker: int | None


@frozen
class ClaimScope:
    """Work that a process may claim if several processes run turns.

    `worker` is its number, or None for the owner of the data. `takes` returns whether the turn that
    answers a message is run here; `is_isolated` returns whether a turn that may have ended a
    process can run on this lane now; `max_subagents` limits the concurrent sub-agents of a
    conversation across all processes, None if there is only one process.
    """

    worker: int | None = None
    takes: Callable[[InboundMessage], bool] = lambda message: True
    is_isolated: Callable[[str], bool] = lambda lane: True
    max_subagents: Callable[[], int] | None = None

    @property
    def number(self) -> int:
        return OWNER if self.worker is None else self.worker

    def home(self, message: InboundMessage, pin: int | None) -> HeldElsewhere | None:
        """Return the process that runs the turn that answers a message; None for this process.

        `pin` is the process that runs background commands of the conversation.
        """
        if pin is not None:
            return None if pin == self.number else HeldElsewhere(pin)
        if self.takes(message):
            return None
        return HeldElsewhere(None if self.worker is None else OWNER)

    def has_room(self, tx: Transaction, message: InboundMessage, lane: str) -> bool:
        """Return whether the sub-agent for a message, if any, may begin."""
        if self.max_subagents is None or message.task is None or not message.lane:
            return True
        return subagent_tasks.has_room(tx, message.task, lane, self.max_subagents())


# Turns of a process, by its number.
_WHOSE = "coalesce(worker, 0) = ?"
# Scope of a process that does everything.
EVERYTHING = ClaimScope()


def claim(
    tx: Transaction,
    lane: str,
    now: float,
    is_command: Callable[[InboundMessage], bool],
    compose: Callable[[Sequence[InboundMessage], str | None], Message],
    scope: ClaimScope = EVERYTHING,
) -> TurnClaim | CommandClaim | SessionBusy | HeldElsewhere | None:
    """Take the next thing to do on a lane: an unfinished turn, a command, or a new turn.

    A new turn stores its user message, which `compose` creates with the session's mode, with a note
    about sub-agents that work for its session in the background. Returns None also while an answer
    is awaited, or room for a sub-agent.
    """
    stand = _lane_state(tx, lane)
    if not stand.is_run_here:
        return None
    if stand.turn is not None:
        return _resume(tx, lane, stand.turn, scope) if stand.turn.state == "running" else None
    here = stand.session
    if here is not None and here.status != "open":
        if here.status == "paused":
            # Messages wait while a session is paused, but commands do not; otherwise it could never
            # be resumed here.
            return claim_at_once(tx, lane, is_command, scope)
        sessions.unbind(tx, lane)
        here = None
    waiting = _next_rows(tx, lane, here.choices.get(QUEUE) if here else None, stand.queue_default)
    if not waiting:
        return None
    (seq, message), *_ = waiting
    if is_command(message) or _has_left(message, here):
        if scope.worker is not None:
            return HeldElsewhere(OWNER)
        return CommandClaim(seq, message, here.id if here else None)
    reading = _Reading(is_command, compose)
    return _begin(tx, lane, now, _Waiting(waiting, here, stand.has_context), reading, scope)


def _next_rows(
    tx: Transaction, lane: str, choice: QueueMode | None, default: QueueMode
) -> Sequence[tuple[int, InboundMessage]]:
    """Return the lane's next message, with the messages that are answered in the same turn."""

    def is_queued(row: tuple[int, InboundMessage]) -> bool:
        return row[1].options.queue_mode(choice, default) == "queue"

    is_together = (choice or default) != "queue"
    rows = inbox.waiting_rows(tx, lane, together=is_together)
    if not rows or (not is_together and is_queued(rows[0])):
        return rows
    if not is_together:
        rows = inbox.waiting_rows(tx, lane, together=True)
    if len(rows) > LANE_LIMIT:
        return rows
    return list(takewhile(lambda row: not is_queued(row), rows)) or rows[:1]


def _has_left(message: InboundMessage, here: SessionRow | None) -> bool:
    """Return whether a goal's message belongs to a session that the lane has left."""
    is_here = here is not None and here.id == message.options.session
    return message.is_for_goal and not is_here


@frozen
class _Waiting:
    """Waiting messages of a lane with their rows, and the lane's session."""

    rows: Sequence[tuple[int, InboundMessage]]
    here: SessionRow | None
    has_context: bool


@frozen
class _Reading:
    """Functions on messages that the store does not implement itself."""

    is_command: Callable[[InboundMessage], bool]
    compose: Callable[[Sequence[InboundMessage], str | None], Message]


def _begin(
    tx: Transaction, lane: str, now: float, waits: _Waiting, reading: _Reading, scope: ClaimScope
) -> TurnClaim | SessionBusy | HeldElsewhere | None:
    """Begin a new turn for the lane's first messages."""
    (seq, message), *_ = waits.rows
    here = waits.here
    bound = here.id if here else None
    session = inbox.session_of_message(message) or bound
    pin = None if session is None else _pin(tx, session, here)
    if (home := scope.home(message, pin)) is not None:
        return home
    if not scope.has_room(tx, message, lane):
        return None
    if session is None:
        session = sessions.create_session(tx, message.principal, now, lane=lane)
    begun = tx.first(
        "INSERT INTO turn (session, lane, state, progress, is_claimed, worker, created_at)"
        " VALUES (?, ?, 'running', 1, 1, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
        (session, lane, scope.worker, now),
    )
    if begun is None:
        busy, waits_too = tx.one(
            f"SELECT lane, state = 'waiting' FROM turn WHERE session = ? AND {LIVE}", (session,)
        )
        return SessionBusy(busy, bool(waits_too))
    (turn,) = begun
    belong = {session} if inbox.session_of_message(message) else {session, bound}

    def joins(message: InboundMessage) -> bool:
        is_of_it = (inbox.session_of_message(message) or bound) in belong
        return is_of_it and not reading.is_command(message)

    joined = list(takewhile(lambda row: joins(row[1]), waits.rows))
    messages = [message for _, message in joined]
    _take_in(tx, turn, lane, joined)
    session_folders.note(tx, session, messages[-1])
    row = here if here is not None and here.id == session else sessions.load_row(tx, session)
    if row.mode is None and is_mode(mode := messages[-1].session_mode):
        sessions.choose_mode(tx, session, mode)
        row = sessions.load_row(tx, session)
    composed = reading.compose(messages, row.mode)
    user_message = _without_repeats(tx, session, composed, messages)
    if row.has_background and (task_facts := subagent_tasks.facts(tx, session)):
        user_message = replace(
            user_message, content=(*user_message.content, Context(f"[{'; '.join(task_facts)}]"))
        )
    if waits.has_context and (group_context := chats.take_group_context(tx, lane)):
        user_message = replace(
            user_message, content=(*user_message.content, Context(group_context))
        )
    sessions.append_messages(tx, session, turn, [user_message], now, last=row.last)
    is_new = row.last == row.copied
    begins = sessions.recent(tx, 1, session=session)[0].name if is_new else None
    return TurnClaim(
        turn,
        seq,
        session,
        messages,
        user_message=user_message,
        begins=begins,
        choices=row.choices,
        mode=row.mode,
        taint=row.taint,
        bits=row.bits,
        memory=sessions.load_memory(tx, session) if row.last else None,
        file_views=sessions.file_views_of(tx, row),
        folder_identity=row.folder_identity,
    )


def _pin(tx: Transaction, session: str, here: SessionRow | None) -> int | None:
    row = here if here is not None and here.id == session else sessions.load_row(tx, session)
    return row.worker


def _without_repeats(
    tx: Transaction, session: str, user_message: Message, messages: Sequence[InboundMessage]
) -> Message:
    """Remove facts about a client's folder from a message that repeat the conversation.

    The next client of `kore agent -c` sends the same facts again.
    """
    projects = [message.options.project for message in messages if message.options.project]
    if not projects:
        return user_message
    parts = {str(part) for project in projects for part in project.get("parts", ())}
    repeats = find_repeats(parts, windows.load(tx, session).messages)
    if not repeats:
        return user_message
    others = (
        part
        for part in user_message.content
        if not (isinstance(part, Context) and part.text in repeats)
    )
    return replace(user_message, content=tuple(others))


def recover(tx: Transaction, worker: int | None = None) -> list[str]:
    """Record the turns that a process was running when it was interrupted; return its lanes.

    `worker` is the number of the process, or None for the last owner of the data. An attempt is
    charged to a turn that ran alone, and to a suspect among turns that were interrupted for the
    first time; among several suspects, the cause is unknown. A new step resets both counts.
    """
    process = (OWNER if worker is None else worker,)
    cut_off = tx.all(
        f"SELECT id, progress, {_STEPS}, {CUTS} FROM turn WHERE {RUNNING} AND {_WHOSE}"
        " AND is_claimed = 1 AND is_suspended = 0",
        process,
    )
    stuck = {turn: cuts for turn, progress, steps, cuts in cut_off if steps == progress}
    alone = list(stuck) if len(cut_off) == 1 else [turn for turn, cuts in stuck.items() if cuts]
    if len(cut_off) > 1 and (len(alone) != 1 or stuck[alone[0]] < SUSPECT_AFTER):
        alone = []
    for turn, _, steps, _ in cut_off:
        if turn not in stuck:
            change = "attempts = 1, interruptions = 0"
        elif turn in alone:
            change = "attempts = attempts + 1"
        else:
            change = "interruptions = interruptions + 1"
        tx.run(f"UPDATE turn SET {change}, progress = ? WHERE id = ?", (steps, turn))
    lanes = tx.all(f"SELECT lane FROM turn WHERE {RUNNING} AND {_WHOSE}", process)
    tx.run(f"UPDATE turn SET is_claimed = 0, worker = NULL WHERE {LIVE} AND {_WHOSE}", process)
    tx.run("UPDATE session SET worker = NULL WHERE worker = ?", process)
    return [lane for (lane,) in lanes]


def workers_at_work(tx: Transaction) -> list[int]:
    """Return the workers that have claimed a turn or a conversation."""
    rows = tx.all(
        f"SELECT worker FROM turn WHERE {LIVE} AND worker IS NOT NULL"
        " UNION SELECT worker FROM session WHERE worker IS NOT NULL"
    )
    return [worker for (worker,) in rows]


def release(tx: Transaction, turn: int) -> None:
    """Release a turn that waits for an event, so that any process may continue it afterwards."""
    tx.run(f"UPDATE turn SET is_claimed = 0, worker = NULL WHERE id = ? AND {LIVE}", (turn,))


def suspend_all(tx: Transaction, worker: int | None = None) -> None:
    """Suspend a process's running turns for a clean stop.

    Continuing them costs no attempt. Turns of a killed gateway are not suspended by this process.
    """
    tx.run(
        f"UPDATE turn SET is_suspended = 1 WHERE {RUNNING} AND {_WHOSE} AND {TURN_RUN_HERE}",
        (OWNER if worker is None else worker,),
    )


@frozen
class _LiveTurn:
    """Unfinished turn. `stored` counts its messages in the history."""

    id: int
    session: str
    state: str
    stop_requested: bool
    attempts: int
    interruptions: int
    is_suspended: bool
    is_claimed: bool
    worker: int | None
    stored: int

    @property
    def is_suspect(self) -> bool:
        return not self.is_suspended and self.attempts - 1 + self.interruptions >= SUSPECT_AFTER


@frozen
class _LaneState:
    """State of a lane, read in one query.

    It consists of the live turn, the session, the default queue mode, and whether there are unread
    group messages.
    """

    is_run_here: bool
    queue_default: QueueMode
    has_context: bool
    turn: _LiveTurn | None
    session: SessionRow | None


_TURN_COLUMNS = len(fields(_LiveTurn))


def _lane_state(tx: Transaction, lane: str) -> _LaneState:
    is_here, queue, has_context, *row = tx.one(
        f"SELECT {LANE_RUN_HERE},"
        " (SELECT mode FROM queue_default WHERE channel = ?),"
        " EXISTS (SELECT 1 FROM group_context WHERE lane = ?),"
        " turn.id, turn.session, turn.state, turn.stop_requested, turn.attempts,"
        " turn.interruptions, turn.is_suspended, turn.is_claimed, turn.worker,"
        f" (SELECT count(*) FROM message WHERE turn_id = turn.id), {sessions.ROW_COLUMNS}"
        " FROM (SELECT 1) AS single"
        f" LEFT JOIN turn ON turn.lane = ? AND turn.{LIVE}"
        " LEFT JOIN binding ON binding.lane = ?"
        " LEFT JOIN session ON session.id = binding.session",
        (lane, lane, lane.partition(":")[0], lane, lane, lane),
    )
    turn, session = row[:_TURN_COLUMNS], row[_TURN_COLUMNS:]
    return _LaneState(
        is_run_here=bool(is_here),
        queue_default=as_queue_mode(queue),
        has_context=bool(has_context),
        turn=None if turn[0] is None else _LiveTurn(*turn),
        session=None if session[0] is None else sessions.session_row(tx, tuple(session)),
    )


def _take_in(
    tx: Transaction, turn: int, lane: str, rows: Sequence[tuple[int, InboundMessage]]
) -> None:
    """Assign the first waiting rows of its lane, without a gap, to a turn."""
    tx.run(
        f"UPDATE inbox SET turn_id = ? WHERE lane = ? AND {WAITING} AND seq <= ?",
        (turn, lane, rows[-1][0]),
    )


def _resume(
    tx: Transaction, lane: str, live: _LiveTurn, scope: ClaimScope
) -> TurnClaim | HeldElsewhere | None:
    """Resume the lane's unfinished turn; None while it must run in isolation, which is impossible
    here.
    """
    if live.is_claimed and live.worker != scope.worker:
        return HeldElsewhere(OWNER if live.worker is None else live.worker)
    turn, session = live.id, live.session
    rows = tx.all(f"SELECT seq, {PAYLOAD} FROM inbox WHERE turn_id = ? ORDER BY seq", (turn,))
    messages = [inbound_from_row(tx, *columns) for _, *columns in rows]
    state = sessions.load_row(tx, session)
    if (home := scope.home(messages[-1], state.worker)) is not None:
        return home
    if live.is_suspect and not scope.is_isolated(lane):
        return None
    if not scope.has_room(tx, messages[-1], lane):
        return None
    tx.run(
        "UPDATE turn SET is_claimed = 1, is_suspended = 0, worker = ? WHERE id = ?",
        (scope.worker, turn),
    )
    # A call that had started when the turn was interrupted may have had its effect. A repeatable
    # call remains started, because only a call that never began is planned.
    tx.run(
        "UPDATE step SET state = 'unknown'"
        " WHERE turn_id = ? AND state = 'started' AND effect = 'unsafe'",
        (turn,),
    )
    return TurnClaim(
        turn=turn,
        seq=rows[0][0],
        session=session,
        messages=messages,
        resumed=True,
        stop_requested=bool(live.stop_requested),
        exhausted=live.attempts > MAX_ATTEMPTS,
        stored=live.stored,
        choices=state.choices,
        mode=state.mode,
        taint=state.taint,
        bits=state.bits,
        memory=sessions.load_memory(tx, session),
        file_views=sessions.file_views_of(tx, state),
        folder_identity=state.folder_identity,
    )


def claim_at_once(
    tx: Transaction,
    lane: str,
    is_at_once: Callable[[InboundMessage], bool],
    scope: ClaimScope = EVERYTHING,
) -> CommandClaim | None:
    """Claim the lane's next command that need not wait for earlier messages; not for workers."""
    if scope.worker is not None:
        return None
    for seq, message in inbox.waiting_rows(tx, lane, together=True, incomplete=True):
        if is_at_once(message):
            return CommandClaim(seq, message, sessions.bound_session(tx, lane))
    return None


def suspect_groups(tx: Transaction) -> list[list[str]]:
    """Return the lanes of interrupted turns, in groups to continue one after the other.

    The list is empty if no turn is a suspect. Turns with the fewest interruptions come first.
    Suspects with the same count are split in half, so that each further end of the process halves
    the number of suspects.
    """
    rows = tx.all(
        f"SELECT lane, {CUTS} FROM turn WHERE {RUNNING} AND is_suspended = 0"
        f" AND is_claimed = 0 AND {CUTS} > 0 AND {TURN_RUN_HERE} ORDER BY {CUTS}, id"
    )
    if not rows or rows[-1][1] < SUSPECT_AFTER:
        return []
    groups: list[list[str]] = []
    for cuts, equals in groupby(rows, key=lambda row: row[1]):
        lanes = [lane for lane, _ in equals]
        half = (len(lanes) + 1) // 2 if cuts >= SUSPECT_AFTER else len(lanes)
        groups += [group for group in (lanes[:half], lanes[half:]) if group]
    return groups


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

    Messages join if they steer, or if the conversation joins messages and they arrive in a burst
    before anything was done; otherwise, only reports of the turn's own background commands join.
    The rows, their taint and the history change in this transaction. `results` are results of the
    last reply's calls that are not in the history yet; they precede the messages.
    """
    choice = sessions.chosen_queue_mode(tx, claim.session)
    default = queue_default(tx, sessions.home_lane(tx, claim.session))
    if joining.burst and (choice or default) != "join":
        return None
    wanted_mode: QueueMode = "join" if joining.burst else "steer"
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

    def has_mode(message: InboundMessage) -> bool:
        return message.options.queue_mode(choice, default) == wanted_mode

    waiting = inbox.waiting_rows(tx, lane, together=True)
    rows = list(takewhile(lambda row: joins(row[1]) and has_mode(row[1]), waiting))
    is_steered = bool(rows) and not joining.burst
    if not rows and not joining.burst:
        rows = [row for row in waiting if row[1].kind == "command_report" and joins(row[1])]
    if not rows:
        return None
    messages = [message for _, message in rows]
    for seq, _ in rows:
        tx.run("UPDATE inbox SET turn_id = ? WHERE seq = ?", (claim.turn, seq))
    new_messages = [*results, joining.compose(messages, steering=is_steered)]
    sessions.append_messages(tx, claim.session, claim.turn, new_messages, now)
    taint = joining.taint(messages) | taint_of_quotes(tx, messages)
    sessions.add_taint(tx, claim.session, taint)
    return SteeredMessages(messages, new_messages, taint)
