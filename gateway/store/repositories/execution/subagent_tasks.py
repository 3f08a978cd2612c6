"""Repository for tasks of sub-agents. Each task starts, ends and is reported once."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any, Literal

from agent.records import frozen
from agent.serialization import dumps
from agent.subagents.definition import SubagentDefinition
from agent.types import Taint
from gateway.store.conditions import LIVE, RUNNING, beginning, none_of
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import session_marks, sessions
from gateway.store.repositories.execution import turns

State = Literal["running", "done", "failed", "stopped"]
_PLAIN = (
    "id, turn_id, step, caller, caller_lane, root_turn, root_session, root_lane, depth, session,"
    " lane, agent"
)
_SELECT = (
    f"SELECT {_PLAIN}, definition, title, model, is_background, state, result, taint, asked_at,"
    " ended_at FROM task"
)


@frozen
class SubagentTask:
    """Row of a sub-agent's task.

    `turn_id` and `step` identify the call that started it, `root_*` the person's turn that it
    ultimately works for; `caller` and `session` are sessions. Times are Unix seconds.
    """

    id: int
    turn_id: int
    step: int
    caller: str
    caller_lane: str
    root_turn: int
    root_session: str
    root_lane: str
    depth: int
    session: str
    lane: str
    agent: str
    definition: SubagentDefinition
    title: str
    model: str | None
    is_background: bool
    state: State
    result: str | None
    taint: frozenset[Taint]
    asked_at: float
    ended_at: float | None


@frozen
class TaskOutcome:
    """Outcome of a task, as the sub-agent's last reply or a sentence of Kore."""

    state: State
    text: str
    taint: frozenset[Taint] = frozenset()


def put(tx: Transaction, subagent_task: SubagentTask) -> SubagentTask:
    """Store a new task; returns it with its number."""

    def seal(text: str, name: str) -> str | None:
        return tx.seal(text, f"task.{name}", subagent_task.turn_id, subagent_task.step)

    row = asdict(subagent_task) | {
        "definition": seal(dumps(asdict(subagent_task.definition)), "definition"),
        "title": seal(subagent_task.title, "title"),
        "taint": ",".join(sorted(subagent_task.taint)),
        "is_background": int(subagent_task.is_background),
    }
    columns = [
        field.name
        for field in fields(SubagentTask)
        if field.name not in ("id", "result", "ended_at")
    ]
    marks = ", ".join("?" for _ in columns)
    values = [row[name] for name in columns]
    (number,) = tx.one(
        f"INSERT INTO task ({', '.join(columns)}) VALUES ({marks}) RETURNING id", values
    )
    return get(tx, number)


def of_call(tx: Transaction, turn: int, call_id: str) -> tuple[int, SubagentTask | None]:
    """Return the journal's number of a call, and the task that it has already started."""
    (step,) = tx.one(
        "SELECT coalesce(max(n), 0) FROM step WHERE turn_id = ? AND call_id = ?", (turn, call_id)
    )
    tasks = _all(tx, "turn_id = ? AND step = ?", turn, step)
    return step, tasks[0] if tasks else None


def get(tx: Transaction, number: int) -> SubagentTask:
    return _from_row(tx, tx.one(f"{_SELECT} WHERE id = ?", (number,)))


def find(tx: Transaction, number: str, root_session: str) -> SubagentTask | None:
    """Return a task of this conversation."""
    if not number.isdecimal() or len(number) > 15:
        return None
    tasks = _all(tx, "id = ? AND root_session = ?", int(number), root_session)
    return tasks[0] if tasks else None


def at_work(tx: Transaction, number: str, root_lane: str) -> SubagentTask | None:
    """Return an unfinished task of this chat."""
    if not number.isdecimal() or len(number) > 15:
        return None
    where = "id = ? AND root_lane = ? AND state = 'running'"
    tasks = _all(tx, where, int(number), root_lane)
    return tasks[0] if tasks else None


def running(tx: Transaction, root_session: str) -> list[SubagentTask]:
    return _all(tx, "root_session = ? AND state = 'running' ORDER BY id", root_session)


def facts(tx: Transaction, caller: str) -> list[str]:
    """Return the background sub-agents of a conversation, as text for its model."""
    where = "caller = ? AND is_background = 1 AND state = 'running' ORDER BY id"
    return [
        f"sub-agent {subagent_task.agent} (number {subagent_task.id}) is running in the background"
        for subagent_task in _all(tx, where, caller)
    ]


def latest(tx: Transaction, root_lane: str, limit: int) -> list[SubagentTask]:
    """Return the tasks of a chat, running ones first, then newest first."""
    where = "root_lane = ? ORDER BY state = 'running' DESC, id DESC LIMIT ?"
    return _all(tx, where, root_lane, limit)


def of_session(tx: Transaction, session: str, limit: int) -> list[SubagentTask]:
    """Return the tasks that work or worked for a session, running ones first."""
    where = "(root_session = ? OR caller = ?) ORDER BY state = 'running' DESC, id DESC LIMIT ?"
    return _all(tx, where, session, session, limit)


def below(tx: Transaction, lane: str) -> list[SubagentTask]:
    """Return the running tasks of a lane, and their sub-agents' running tasks."""
    tasks: list[SubagentTask] = []
    lanes = [lane]
    while lanes:
        own = _all(tx, "caller_lane = ? AND state = 'running'", lanes.pop())
        tasks += own
        lanes += [subagent_task.lane for subagent_task in own]
    return tasks


def has_ended(tx: Transaction, turn: int) -> bool:
    """Return whether a turn and all sub-agents that it has started have ended."""
    (is_live,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM turn WHERE id = ? AND {LIVE})"
        " OR EXISTS (SELECT 1 FROM task WHERE turn_id = ? AND state = 'running')",
        (turn, turn),
    )
    return not is_live


def is_awaited(tx: Transaction, turn: int) -> bool:
    """Return whether a turn waits for a sub-agent that is still working."""
    (exists,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM task WHERE turn_id = ? AND is_background = 0"
        " AND state = 'running')",
        (turn,),
    )
    return bool(exists)


def has_room(tx: Transaction, number: int, lane: str, limit: int) -> bool:
    """Return whether fewer than `limit` other sub-agents of its root session are working."""
    (count,) = tx.one(
        f"SELECT count(*) FROM turn WHERE {RUNNING} AND is_claimed = 1 AND lane <> ? AND lane IN"
        " (SELECT lane FROM task WHERE state = 'running' AND root_session ="
        " (SELECT root_session FROM task WHERE id = ?))",
        (lane, number),
    )
    return bool(count < limit)


def lanes_without_room(tx: Transaction, root_session: str, limit: int) -> list[str]:
    """Return lanes of a conversation's tasks that have not begun, or that no process works on.

    At most `limit` lanes are returned, oldest first.
    """
    rows = tx.all(
        "SELECT lane FROM task WHERE root_session = ? AND state = 'running' AND NOT EXISTS"
        f" (SELECT 1 FROM turn WHERE turn.lane = task.lane AND {LIVE}"
        " AND (turn.state = 'waiting' OR is_claimed = 1)) ORDER BY id LIMIT ?",
        (root_session, limit),
    )
    return [lane for (lane,) in rows]


def end(tx: Transaction, number: int, outcome: TaskOutcome, now: float) -> bool:
    """End a task; return False if it had already ended.

    A turn that waited for it continues, without being charged an attempt, once it waits for no
    other task; the taint of the result is added to the caller's session.
    """
    row = tx.first(
        "SELECT turn_id, step, caller, is_background FROM task WHERE id = ? AND state = 'running'",
        (number,),
    )
    if row is None:
        return False
    turn, step, caller, is_background = row
    taint = ",".join(sorted(outcome.taint))
    result = tx.seal(outcome.text, "task.result", turn, step, taint)
    tx.run(
        "UPDATE task SET state = ?, result = ?, taint = ?, ended_at = ? WHERE id = ?",
        (outcome.state, result, taint, now, number),
    )
    sessions.add_taint(tx, caller, outcome.taint)
    if not is_background and not is_awaited(tx, turn):
        tx.run(
            "UPDATE turn SET state = 'running', is_suspended = 1 WHERE id = ?"
            " AND state = 'waiting' AND NOT EXISTS"
            " (SELECT 1 FROM approval WHERE turn_id = turn.id AND state = 'open')",
            (turn,),
        )
    return True


def abandon(tx: Transaction, lanes: str, now: float, attended: Sequence[str] = ()) -> int:
    """End the sub-agents of abandoned chats, on lanes with this prefix.

    Chats whose processes are `attended` are excluded.
    """
    where = "state = 'running' AND root_lane >= ? AND root_lane < ?"
    where += f" AND {none_of('root_lane', attended)}"
    tasks = _all(tx, where, *beginning(lanes), *attended)
    for subagent_task in tasks:
        turns.abandon_lane(tx, subagent_task.lane, now)
        end(tx, subagent_task.id, TaskOutcome("stopped", "Nobody is waiting for it any more."), now)
    return len(tasks)


def _all(tx: Transaction, where: str, *values: object) -> list[SubagentTask]:
    """Return the tasks that are unchanged since Kore wrote them.

    A changed task must not block its conversation.
    """
    tasks = []
    for row in tx.all(f"{_SELECT} WHERE {where}", values):
        with suppress(SealBroken):
            tasks.append(_from_row(tx, row))
    return tasks


def _from_row(tx: Transaction, row: Sequence[Any]) -> SubagentTask:
    data = dict(zip((field.name for field in fields(SubagentTask)), row, strict=True))
    key = data["turn_id"], data["step"]
    for name in ("definition", "title"):
        data[name] = tx.unseal(data[name], f"task.{name}", *key)
    data["result"] = tx.unseal(data["result"], "task.result", *key, data["taint"])
    return SubagentTask(
        **data
        | {
            "definition": SubagentDefinition.of_data(json.loads(data["definition"])),
            "is_background": bool(data["is_background"]),
            "taint": session_marks.taint_of_text(data["taint"]),
        }
    )
