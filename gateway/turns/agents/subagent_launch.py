"""Stored records of a sub-agent's launch and end.

Each function is part of a transaction.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.subagents import profile
from agent.subagents.definition import SubagentDefinition
from agent.subagents.isolation import IsolatedFolder
from agent.tools import base
from agent.tools.base import CallContext
from gateway.core.messages import CONSOLE, InboundMessage, derive_report
from gateway.core.session_folder import SessionFolder
from gateway.store.port import Transaction
from gateway.store.repositories.access import approvals
from gateway.store.repositories.conversations import session_folders, sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import subagent_tasks
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask, TaskOutcome

MAX_RUNNING = 32


@frozen
class SubagentLaunch:
    """New sub-agent task to store.

    `caller_task` is the task that makes the call; `earlier_task` is the task that it continues.
    `isolated` is the folder in a worktree; without it, the task uses the caller's folder.
    """

    claim: TurnClaim
    caller_task: SubagentTask | None
    call: CallContext
    request: base.SubagentRequest
    definition: SubagentDefinition
    model: str | None
    earlier_task: SubagentTask | None = None
    speaker: SubagentDefinition | None = None
    isolated: IsolatedFolder | None = None


def get_all(tx: Transaction, numbers: Sequence[int]) -> list[SubagentTask]:
    return [subagent_tasks.get(tx, number) for number in numbers]


def find_task_of_call(tx: Transaction, claim: TurnClaim, call: CallContext) -> SubagentTask | None:
    """Return the task that an earlier attempt of this call started, if any.

    The turn waits while a foreground task is running.
    """
    _, subagent_task = subagent_tasks.of_call(tx, claim.turn, call.call.id)
    if (
        subagent_task is not None
        and subagent_task.state == "running"
        and not subagent_task.is_background
    ):
        approvals.wait(tx, claim.turn)
    return subagent_task


def earlier(
    tx: Transaction,
    claim: TurnClaim,
    caller: SubagentTask | None,
    request: base.SubagentRequest,
) -> SubagentTask | None:
    """Return the task that the request continues, if any.

    Raise `ToolError` if the number is not a task of this conversation.
    """
    if request.resume is None:
        return None
    task = subagent_tasks.find(tx, request.resume, caller.root_session if caller else claim.session)
    if task is None or task.caller != claim.session:
        raise profile.not_resumable(request)
    return task


def launch(tx: Transaction, order: SubagentLaunch, now: float) -> SubagentTask:
    """Store the task, its session and its request message; return the task. Raise `ToolError`."""
    claim, caller, request = order.claim, order.caller_task, order.request
    if approvals.is_stopping(tx, claim.turn):
        raise ToolError("Not started: the turn is being stopped.")
    step, task_before = subagent_tasks.of_call(tx, claim.turn, order.call.call.id)
    assert task_before is None, "a turn makes each call once at a time"
    root_session = caller.root_session if caller else claim.session
    working = len(subagent_tasks.running(tx, root_session))
    if working >= MAX_RUNNING:
        raise ToolError(
            f"{working} sub-agents are already running for this conversation: wait for them."
        )
    lane = caller.lane if caller else claim.messages[-1].session_key
    earlier, above = order.earlier_task, caller.definition if caller else order.speaker
    isolated = order.isolated
    definition = replace(
        order.definition.held_to(above.mode if above else None),
        isolation=None if isolated is None else "worktree",
    )
    session = (
        earlier.session
        if earlier is not None
        else sessions.create_session(tx, f"agent:{definition.name}", now)
    )
    subagent_task = subagent_tasks.put(
        tx,
        SubagentTask(
            id=0,
            turn_id=claim.turn,
            step=step,
            caller=claim.session,
            caller_lane=lane,
            root_turn=caller.root_turn if caller else claim.turn,
            root_session=root_session,
            root_lane=caller.root_lane if caller else lane,
            depth=(caller.depth if caller else 0) + 1,
            session=session,
            lane=f"task:{session}",
            agent=definition.name,
            definition=definition,
            title=request.title,
            model=order.model,
            is_background=is_background(claim, caller, request, order.definition),
            state="running",
            result=None,
            taint=frozenset(),
            asked_at=now,
            ended_at=None,
        ),
    )
    sessions.bind(tx, subagent_task.lane, session)
    sessions.add_taint(tx, session, order.call.taint | profile.taint_of(definition))
    folder = prompt = None
    if isolated is not None:
        start_folder = None if isolated.start_folder is None else str(isolated.start_folder)
        folder = SessionFolder(str(isolated.workspace), start_folder)
        session_folders.put(tx, session, folder)
        sessions.forget_folder_identity(tx, session)
        prompt = f"{request.prompt}\n\n{isolated.prompt}"
    enqueue_task(tx, claim.messages[-1], subagent_task, prompt or request.prompt, now, folder)
    if not subagent_task.is_background:
        approvals.wait(tx, claim.turn)
    return subagent_task


def enqueue_task(
    tx: Transaction,
    cause: InboundMessage,
    subagent_task: SubagentTask,
    prompt: str,
    now: float,
    folder: SessionFolder | None = None,
) -> None:
    """Store the message that the sub-agent's turn answers; `folder` is its own folder, if any."""
    options = replace(cause.options.lasting, agent=None)
    if folder is not None:
        options = options.in_folder(folder)
    elif cause.channel != CONSOLE and cause.kind != "subagent_task":
        # A chat names no folder.
        options = replace(options, cwd=None, start_folder=None)
    message = cause.derive(
        "subagent_task",
        f"task:{subagent_task.id}",
        prompt,
        now,
        options=options,
        task=subagent_task.id,
        lane=subagent_task.lane,
    )
    arrival = InboxBatch(message.channel, message.account, now)
    inbox.accept(tx, arrival, [InboxEntry(message)])


def enqueue_report(
    tx: Transaction, subagent_task: SubagentTask, outcome: TaskOutcome, now: float
) -> None:
    """Store the report for the caller's conversation; its key is derived from the task."""
    text = render_prompt(
        "subagent_report",
        agent=subagent_task.agent,
        number=subagent_task.id,
        title=subagent_task.title,
        outcome="has finished" if outcome.state == "done" else "has failed",
        text=profile.shorten_result(outcome.text),
    )
    message = derive_report(
        inbox.of_turn(tx, subagent_task.root_turn),
        "subagent_report",
        f"report:{subagent_task.id}",
        text,
        now,
        session=subagent_task.caller,
        taint=tuple(sorted(outcome.taint)),
        task=subagent_task.id,
    )
    arrival = InboxBatch(message.channel, message.account, now)
    inbox.accept(tx, arrival, [InboxEntry(message)])


def is_background(
    claim: TurnClaim,
    caller: SubagentTask | None,
    request: base.SubagentRequest,
    definition: SubagentDefinition,
) -> bool:
    """Return whether a task runs in the background.

    A one-shot run ends before a background result could be read, and a sub-agent's own turn ends
    with its result.
    """
    is_requested = definition.background if request.background is None else request.background
    is_once = claim.messages[-1].is_once
    return is_requested and caller is None and not is_once


def speakers(
    tx: Transaction, subagent_task: SubagentTask
) -> tuple[list[InboundMessage], str | None]:
    """Return the messages that the task works for and the current mode of their conversation."""
    messages = inbox.of_turn(tx, subagent_task.root_turn)
    mode = sessions.chosen_mode(tx, subagent_task.root_session)
    return [replace(message, lane=subagent_task.lane) for message in messages], mode
