"""Repository for turns: steps, results, end, outcome, and recovery after a crash."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from agent.context.history_validation import close_unanswered_calls, result_message
from agent.prompts import load_prompt
from agent.records import frozen
from agent.serialization import dumps, images_from_json, part_to_json
from agent.types import Effect, Message, ToolCall, ToolResult, assistant
from gateway.core.messages import ONCE
from gateway.core.records import MessageOutcome
from gateway.store.conditions import DENIED, LIVE, WAITING, beginning, none_of
from gateway.store.errors import ReplayRefused
from gateway.store.port import Transaction
from gateway.store.repositories import codecs, usage
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import session_marks, sessions
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, forget_codes
from gateway.store.repositories.execution import windows

# Effect of /stop: it stopped the running turn, or withdrew messages that no turn had begun to
# answer.
Stopping = Literal["running", "withdrawn"]


def add_reply(
    tx: Transaction,
    turn: int,
    session: str,
    messages: Sequence[Message],
    effects: Mapping[str, Effect],
    now: float,
) -> None:
    """Store a reply that plans calls, after the results of the calls before it.

    The reply is the last of `messages`; `effects` maps call ids to the effects of its calls.
    """
    reply = sessions.append_messages(tx, session, turn, messages, now)
    (n,) = tx.one("SELECT coalesce(max(n), 0) FROM step WHERE turn_id = ?", (turn,))
    tx.many(
        "INSERT INTO step (turn_id, n, reply, call_id, tool, effect, idem_key, args, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'planned')",
        [
            (
                *(turn, i, reply, call.id, call.name, effects[call.id], f"{turn}:{i}"),
                tx.seal(call.raw, "step.args", turn, i),
            )
            for i, call in enumerate(messages[-1].tool_calls, start=n + 1)
        ],
    )


def start_call(tx: Transaction, turn: int, call: ToolCall) -> None:
    """Mark a call as started; after a later crash, its outcome is unknown."""
    tx.run(f"UPDATE step SET state = 'started' WHERE {_LATEST}", (turn, turn, call.id))


def finish_call(tx: Transaction, turn: int, call: ToolCall, result: ToolResult) -> None:
    data = {"text": result.for_model, "is_error": result.is_error}
    if result.ends_with is not None:
        data["ends_with"] = result.ends_with
    if result.images:
        data["images"] = [part_to_json(image) for image in result.images]
    taint = ",".join(sorted(result.taint))
    step = tx.first("SELECT max(n) FROM step WHERE turn_id = ? AND call_id = ?", (turn, call.id))
    n = step[0] if step else None
    if n is not None:
        tx.run(
            "UPDATE step SET state = 'done', result = ?, taint = ? WHERE turn_id = ? AND n = ?",
            (tx.seal(dumps(data), "step.result", turn, n, taint), taint, turn, n),
        )
    if result.taint:
        (session,) = tx.one("SELECT session FROM turn WHERE id = ?", (turn,))
        sessions.add_taint(tx, session, result.taint)


# Some vendors reuse a call's id in a later reply: the newest step is meant.
_LATEST = "turn_id = ? AND n = (SELECT max(n) FROM step WHERE turn_id = ? AND call_id = ?)"


def known_results(tx: Transaction, turn: int, *, stopped: bool = False) -> dict[str, ToolResult]:
    """Return the known results of the calls in a turn's last reply, by call id, or "unknown".

    For a `stopped` turn, which will run no more calls, include the calls that never began.
    """
    rows = tx.all(
        "SELECT call_id, state, n, result, taint FROM step"
        # The start of a read is not recorded.
        " WHERE turn_id = ? AND (state IN ('done', 'unknown')"
        " OR ? = 1 AND state = 'planned' AND effect <> 'read')"
        " AND reply = (SELECT max(reply) FROM step WHERE turn_id = ?)",
        (turn, stopped, turn),
    )
    results = {}
    for call_id, state, n, result, taint in rows:
        if state == "done":
            data = json.loads(tx.unseal(result, "step.result", turn, n, taint))
            results[call_id] = ToolResult(
                data["text"],
                data["is_error"],
                taint=session_marks.taint_of_text(taint),
                ends_with=data.get("ends_with"),
                images=images_from_json(data.get("images", ())),
            )
        else:
            text = load_prompt("unknown_outcome" if state == "unknown" else "not_run")
            results[call_id] = ToolResult(text, is_error=True)
    return results


# Reason why a turn ended without an answer, as the name of the prompt for the model: errors, the
# end of its process each time it ran, or a stop from outside.
EndCause: TypeAlias = Literal["given_up", "cut_off", "ended_early"]


@frozen
class FinishedTurn:
    """Result of a turn: messages for the history, replies to send and the new window.

    Messages up to number `head` have left the window.
    """

    messages: Sequence[Message]
    replies: Sequence[OutgoingReply]
    head: int = 0
    state: str = "done"


def finish(tx: Transaction, turn: int, session: str, outcome: FinishedTurn, now: float) -> bool:
    """Commit history, outbox and turn together; return True if messages wait in its lane."""
    last, is_asking, has_more = tx.one(
        "SELECT (SELECT coalesce(max(n), 0) FROM message WHERE session = ?),"
        " EXISTS (SELECT 1 FROM approval WHERE turn_id = turn.id AND state = 'open'),"
        " EXISTS (SELECT 1 FROM inbox WHERE lane = turn.lane"
        f" AND {WAITING}) FROM turn WHERE id = ?",
        (session, turn),
    )
    sessions.append_messages(tx, session, turn, outcome.messages, now, last=last)
    if outcome.head:
        # A summary in the background may have moved it further meanwhile.
        tx.run(
            "UPDATE session SET head = ? WHERE id = ? AND head < ?",
            (outcome.head, session, outcome.head),
        )
    tx.run("UPDATE turn SET state = ?, ended_at = ? WHERE id = ?", (outcome.state, now, turn))
    if is_asking:
        codecs.withdraw_questions(tx, turn, now)
    outbox.put(tx, turn, outcome.replies, now)
    return bool(has_more)


def request_stop(tx: Transaction, lane: str, before: str) -> Stopping | None:
    """Request the end of the lane's running turn; return None if there is nothing to stop.

    If no turn runs yet, waiting messages of the lane before the event `before` are withdrawn.
    """
    running = tx.run(
        "UPDATE turn SET stop_requested = 1 WHERE lane = ? AND state IN ('running', 'waiting')",
        (lane,),
    )
    if running:
        return "running"
    withdrawn = tx.run(
        f"UPDATE inbox SET dead_reason = 'withdrawn by /stop' WHERE lane = ? AND {WAITING}"
        " AND seq < (SELECT stop.seq FROM inbox stop WHERE stop.channel = inbox.channel"
        " AND stop.account = inbox.account AND stop.event_id = ? AND stop.lane = inbox.lane)",
        (lane, before),
    )
    return "withdrawn" if withdrawn else None


def is_live(tx: Transaction, session: str) -> bool:
    """Return whether a turn of the session has not ended."""
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM turn WHERE session = ? AND {LIVE})", (session,)
    )
    return bool(exists)


def calls_by_tool(tx: Transaction, turn: int) -> Mapping[str, int]:
    """Return the number of a turn's calls of each tool, including those before a restart."""
    rows = tx.all("SELECT tool, count(*) FROM step WHERE turn_id = ? GROUP BY tool", (turn,))
    return dict(rows)


def last_of(tx: Transaction, session: str) -> int | None:
    """Return the newest turn of a session."""
    row = tx.first(
        "SELECT turn_id FROM message WHERE session = ? AND turn_id IS NOT NULL"
        " ORDER BY n DESC LIMIT 1",
        (session,),
    )
    return row[0] if row else None


def finish_command(tx: Transaction, seq: int, reply: OutgoingReply | None, now: float) -> None:
    """Finish a command; its answer is queued in this transaction.

    The delivery gets a new name each time, so that a replayed command is answered again. The check
    of a goal is finished in the same way, without an answer.
    """
    (turn,) = tx.one(
        "INSERT INTO turn (lane, state, created_at, ended_at)"
        " SELECT lane, 'done', ?, ? FROM inbox WHERE seq = ? RETURNING id",
        (now, now, seq),
    )
    tx.run("UPDATE inbox SET turn_id = ? WHERE seq = ?", (turn, seq))
    if reply is not None:
        outbox.put(tx, turn, [replace(reply, delivery_id=f"t{turn}")], now)


def add_model_call(tx: Transaction, lane: str, now: float) -> int:
    """Add a turn for a program's single model call, so that its cost is counted."""
    (turn,) = tx.one(
        "INSERT INTO turn (lane, state, created_at, ended_at) VALUES (?, 'done', ?, ?)"
        " RETURNING id",
        (lane, now, now),
    )
    return int(turn)


def give_up(
    tx: Transaction,
    turn: int,
    replies: Sequence[OutgoingReply],
    reason: str,
    now: float,
    *,
    cause: EndCause = "given_up",
) -> None:
    """End a turn that failed or was stopped from outside; the model is informed of the cause.

    Its open calls get results, so that the session remains usable. The request gets an answer;
    otherwise the model would work on it again with the next message.
    """
    (session,) = tx.one("SELECT session FROM turn WHERE id = ?", (turn,))
    results = {
        call_id: result_message(call_id, result)
        for call_id, result in known_results(tx, turn).items()
    }
    history = windows.load(tx, session).messages
    closing = [*close_unanswered_calls(history, results), assistant(load_prompt(cause))]
    outcome = FinishedTurn(closing, replies, state="dead")
    finish(tx, turn, session, outcome, now)
    tx.run("UPDATE inbox SET dead_reason = ? WHERE turn_id = ?", (reason, turn))


def abandon(tx: Transaction, lanes: str, now: float, attended: Sequence[str] = ()) -> int:
    """End abandoned work: everything on lanes with this prefix.

    Lanes whose processes are `attended` are excluded.
    """
    condition = f"lane >= ? AND lane < ? AND {none_of('lane', attended)}"
    return _abandon(tx, condition, (*beginning(lanes), *attended), now)


def abandon_lane(tx: Transaction, lane: str, now: float) -> int:
    """End abandoned work on a single lane, given its full name."""
    return _abandon(tx, "lane = ?", (lane,), now)


def _abandon(tx: Transaction, condition: str, which: Sequence[str], now: float) -> int:
    """End turns, waiting messages and unsent replies; return the number of turns."""
    reason = "its terminal is gone"
    rows = tx.all(
        f"SELECT id FROM turn WHERE state IN ('running', 'waiting') AND {condition}", which
    )
    for (turn,) in rows:
        give_up(tx, turn, [], reason, now, cause="ended_early")
    tx.run(
        "UPDATE inbox SET dead_reason = ? WHERE turn_id IS NULL AND dead_reason IS NULL"
        f" AND {condition}",
        (reason, *which),
    )
    for state in ("state = 'streaming'", outbox.UNSENT):
        ended = tx.all(
            f"UPDATE outbox SET state = 'dead', dead_reason = ? WHERE {condition} AND {state}"
            " RETURNING seq, delivery_id",
            (reason, *which),
        )
        forget_codes(tx, ended)
    return len(rows)


def replay(tx: Transaction, seq: int) -> str:
    """Queue an inbox row again, regardless of how it ended; return its lane.

    Raises `ReplayRefused`.
    """
    row = tx.first(
        "SELECT i.lane, t.state, i.dead_reason FROM inbox i LEFT JOIN turn t ON t.id = i.turn_id"
        " WHERE i.seq = ?",
        (seq,),
    )
    if row is None or not row[0]:
        raise ReplayRefused("unknown")
    lane, state, dead_reason = row
    if dead_reason == DENIED:
        raise ReplayRefused("denied")
    if lane.startswith(ONCE):
        raise ReplayRefused("one-shot")
    if state in ("running", "waiting"):
        raise ReplayRefused("at-work")
    _reject_subagent_task(tx, seq)
    (worked_for,) = tx.one(
        "SELECT EXISTS (SELECT 1 FROM task JOIN inbox ON inbox.turn_id = task.root_turn"
        " WHERE inbox.seq = ? AND task.state = 'running')",
        (seq,),
    )
    if worked_for:
        # Its rights and the recipient of its result depend on that message.
        raise ReplayRefused("subagent-at-work")
    tx.run("UPDATE inbox SET turn_id = NULL, dead_reason = NULL WHERE seq = ?", (seq,))
    return str(lane)


def _reject_subagent_task(tx: Transaction, seq: int) -> None:
    """Raise `ReplayRefused` for the task of a sub-agent.

    The agent that started it already has a result and would not get another.
    """
    event_id, lane = tx.one("SELECT event_id, lane FROM inbox WHERE seq = ?", (seq,))
    prefix, _, number = str(event_id).partition(":")
    if prefix != "task" or not number.isdecimal():
        return
    row = tx.first(
        "SELECT id, (SELECT min(seq) FROM inbox WHERE turn_id = task.root_turn), root_lane"
        " FROM task WHERE id = ? AND lane = ?",
        (int(number), lane),
    )
    if row is not None:
        number, request_seq, lane = row
        is_kept = request_seq and not lane.startswith(ONCE)
        raise ReplayRefused(
            "subagent-task", subagent=number, request_seq=request_seq if is_kept else None
        )


def step_of_call(tx: Transaction, turn: int, call: str) -> int:
    """Return the newest step of the turn that answers this call; 0 without any."""
    (step,) = tx.one(
        "SELECT coalesce(max(n), 0) FROM step WHERE turn_id = ? AND call_id = ?", (turn, call)
    )
    return int(step)


def find_outcome(tx: Transaction, channel: str, account: str, event_id: str) -> MessageOutcome:
    """Return the state of the turn that includes the message, and the model's text in the turn."""
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
    texts = [message_from_row(tx, *columns).text for columns in rows]
    text = "\n\n".join(filter(None, texts))
    return MessageOutcome("done", "", text, session, usage.of_turn(tx, turn).usage)
