"""Sub-agent tasks: sub-agents run as separate turns in separate lanes on behalf of another turn.

A call that starts a sub-agent stores its task under the key of the call and suspends its turn. The
end of the task resumes the turn, which repeats the call and finds the result, also after a restart.
In the background, the call returns at once. The end of the task then stores a message for the
caller's chat in the same transaction, so that it is reported exactly once.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent.agent import Agent
from agent.errors import ToolError
from agent.i18n import t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.file_io import in_thread
from agent.security.taint.taint import TaintState
from agent.settings import SubagentLimits
from agent.subagents import profile
from agent.subagents.definition import SubagentDefinition
from agent.subagents.isolation import IsolatedFolder, SubagentIsolation, worktree_name
from agent.subagents.slots import ConversationSlots
from agent.tools import base
from agent.tools.base import CallContext
from agent.turn.request import TurnRequest
from agent.types import ToolResult
from agent.worktrees.project_worktrees import ProjectWorktrees
from gateway.core.errors import AwaitingAnswer
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.media.send_file import file_sender, nowhere
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import session_folders, sessions
from gateway.store.repositories.conversations.choices import AGENT
from gateway.store.repositories.execution import subagent_tasks
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask, TaskOutcome
from gateway.turns.agents import subagent_launch
from gateway.turns.agents.profiles import MAIN, profile_for
from gateway.turns.permissions import StoredDisclosureBudget, TurnPermissions


@frozen
class TurnHolders:
    """Names of turns as holders of worktrees; `home` distinguishes several databases."""

    home: Path | None

    def of(self, turn: int) -> str:
        return f"turn {turn} in {self.home}"

    def ended(self, tx: Transaction, holders: Mapping[str, str]) -> Mapping[str, str]:
        """Return the holders whose turns have ended, including their sub-agents."""
        ended = {}
        for worktree, holder in holders.items():
            number = holder.removeprefix("turn ").partition(" ")[0]
            is_turn = number.isdecimal() and holder == self.of(int(number))
            if is_turn and subagent_tasks.has_ended(tx, int(number)):
                ended[worktree] = holder
        return ended


class SubagentCoordinator:
    """Coordinator for sub-agents: starts their turns and records their outcomes.

    `wake` resumes a lane. If other processes run turns as well (`is_shared`), the claim of a turn
    checks the limit of parallel sub-agents.
    """

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        agent: Agent,
        permissions: TurnPermissions,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        wake: Callable[[str], None],
        is_shared: bool = False,
    ) -> None:
        self._is_shared = is_shared
        self._database = database
        self._agent = agent
        self._permissions = permissions
        self._renderer = renderer
        self._sender = sender
        self.wake = wake
        self._slots = ConversationSlots()

    @property
    def _limits(self) -> SubagentLimits:
        return self._agent.settings.subagents

    async def of(self, claim: TurnClaim) -> list[SubagentTask]:
        """Return the sub-agent tasks of a turn; none for a turn that answers a person."""
        numbers = [
            message.task for message in claim.messages if message.task is not None and message.lane
        ]
        if not numbers:
            return []
        return await self._database.transact(subagent_launch.get_all, numbers)

    def max_parallel(self) -> int:
        """Return the maximum number of parallel sub-agents per conversation."""
        return self._limits.max_parallel

    async def slot(self, claim: TurnClaim) -> AbstractAsyncContextManager[object]:
        """Return a context manager that limits the parallel sub-agents of a conversation."""
        tasks = [] if self._is_shared else await self.of(claim)
        if not tasks:
            return nullcontext()
        return self._slots.hold(tasks[0].root_session, self._limits.max_parallel)

    async def user_request(self, claim: TurnClaim, turn_request: TurnRequest) -> TurnRequest:
        """Return the request for a person's turn: its agent, file sending and sub-agents."""
        send = file_sender(
            self._database, self._renderer, self._sender, claim, turn_request.exposure
        )
        turn_request = replace(
            turn_request, environment=replace(turn_request.environment, send=send)
        )
        if (agent := await self._speaker(claim)) is not None:
            turn_request = profile.as_profile(turn_request, agent, self._agent)
            await self._database.transact(
                sessions.add_taint, claim.session, turn_request.exposure.taint
            )
        if not self._limits.may_spawn(0):
            return turn_request
        return self._sending(claim, turn_request, None)

    async def _speaker(self, claim: TurnClaim) -> SubagentDefinition | None:
        """Return the agent that answers, or None for the main agent.

        The terminal's selection takes precedence over `/agent`, the chat settings and the
        configuration.
        """
        message = claim.messages[-1]
        if (agent := profile_for(message)) is not None or message.job is not None:
            return agent
        audience = self._permissions.audience(message)
        name = claim.choices.get(AGENT) or audience.agent
        if name is None or name == MAIN:
            return None
        agent = await asyncio.to_thread(self._agent.subagents.find, name, audience.root)
        if agent is None:
            self._agent.models.tell(t("there is no agent {name!r} any more", name=name))
        return agent

    async def subagent_request(
        self, claim: TurnClaim, turn_request: TurnRequest, subagent_task: SubagentTask
    ) -> TurnRequest:
        """Return the request for a sub-agent's turn.

        Its definition applies, limited to the permissions of its caller.
        """
        speakers, mode = await self._database.transact(subagent_launch.speakers, subagent_task)
        permissions = self._permissions.permissions(
            speakers, subagent_task.root_session, mode, turn=claim.turn
        )
        environment, exposure = turn_request.environment, turn_request.exposure
        recording = environment.recording
        # The conversation cannot undo changes in another folder.
        if subagent_task.definition.isolation is None:
            recording = replace(
                recording,
                turn=subagent_task.root_turn,
                session=subagent_task.root_session,
                prefix=f"{subagent_task.id}:",
            )
        turn_request = replace(
            turn_request,
            permissions=permissions,
            model=subagent_task.model,
            exposure=TaintState(
                exposure.taint,
                budget=StoredDisclosureBudget(self._database, subagent_task.root_session),
            ),
            environment=environment.for_subagent(
                environment.session, subagent_task.agent, recording, send=nowhere
            ),
        )
        turn_request = profile.as_subagent(
            turn_request,
            subagent_task.definition,
            self._agent,
            number=subagent_task.id,
            depth=subagent_task.depth,
        )
        if not self._limits.may_spawn(subagent_task.depth):
            return turn_request
        return self._sending(claim, turn_request, subagent_task)

    def _sending(
        self, claim: TurnClaim, turn_request: TurnRequest, caller: SubagentTask | None
    ) -> TurnRequest:
        """Return the request with permission to start sub-agents.

        `caller` is the task of the turn, if it is a sub-agent's.
        """
        spawn = _StoreSpawner(self, claim, caller, turn_request.model)
        return replace(turn_request, environment=replace(turn_request.environment, spawn=spawn))

    def end(
        self,
        tx: Transaction,
        tasks: Sequence[SubagentTask],
        outcome: TaskOutcome,
        now: float,
    ) -> list[str]:
        """Store the outcome of the tasks and their reports; return the lanes to wake."""
        lanes = []
        for subagent_task in tasks:
            if subagent_tasks.end(tx, subagent_task.id, outcome, now):
                lanes.append(subagent_task.caller_lane)
                if subagent_task.is_background and outcome.state != "stopped":
                    subagent_launch.enqueue_report(tx, subagent_task, outcome, now)
        return [*lanes, *self._lanes_with_room(tx, tasks)]

    async def wake_next(self, claim: TurnClaim) -> None:
        """Wake the lanes of waiting sub-agents if the suspended turn belonged to a sub-agent."""
        if self._is_shared and (tasks := await self.of(claim)):
            for lane in await self._database.transact(self._lanes_with_room, tasks):
                self.wake(lane)

    def _lanes_with_room(self, tx: Transaction, tasks: Sequence[SubagentTask]) -> list[str]:
        """Return lanes of sub-agents that waited for one of these tasks to end or to suspend."""
        if not (self._is_shared and tasks):
            return []
        limit = self._limits.max_parallel
        return subagent_tasks.lanes_without_room(tx, tasks[0].root_session, limit)

    async def send(
        self, claim: TurnClaim, caller_task: SubagentTask | None, order: "SpawnRequest"
    ) -> ToolResult:
        """Return the result of a task.

        Raise `AwaitingAnswer` while the task is running, or `ToolError`.
        """
        call, request = order.call, order.request
        subagent_task = await self._database.transact(
            subagent_launch.find_task_of_call, claim, call
        )
        if subagent_task is None:
            subagent_task = await self._begin(claim, caller_task, order)
        _, note = profile.requested_model(
            self._agent.models,
            request,
            subagent_task.definition,
            caller=order.model,
            earlier=subagent_task.model,
        )
        if subagent_task.state == "running" and not subagent_task.is_background:
            sentence = t("Waiting for a sub-agent: {what}", what=f"`{subagent_task.agent}`")
            raise AwaitingAnswer(
                f"sub-agent {subagent_task.agent} ({subagent_task.id}) works", sentence
            )
        failed = subagent_task.state in ("failed", "stopped")
        if subagent_task.state == "running":
            text = render_prompt(
                "subagent_begun", agent=subagent_task.agent, number=subagent_task.id
            )
        else:
            text = profile.result_text(
                subagent_task.agent, subagent_task.id, subagent_task.result or ""
            )
        return profile.tool_result(text, note, subagent_task.taint, is_error=failed)

    async def _begin(
        self, claim: TurnClaim, caller_task: SubagentTask | None, order: "SpawnRequest"
    ) -> SubagentTask:
        """Start a new task and return it.

        A continued task retains its definition, and its model unless another one is requested.
        """
        request = order.request
        earlier = await self._database.transact(
            subagent_launch.earlier, claim, caller_task, request
        )
        if earlier is None:
            catalogue, root = self._agent.subagents, order.call.workspace
            definition = await profile.find(catalogue, request.agent, root)
        else:
            definition = earlier.definition
        model, _ = profile.requested_model(
            self._agent.models,
            request,
            definition,
            caller=order.model,
            earlier=earlier.model if earlier else None,
        )
        new = subagent_launch.SubagentLaunch(
            claim=claim,
            caller_task=caller_task,
            call=order.call,
            request=request,
            definition=definition,
            model=model,
            earlier_task=earlier,
            speaker=await self._speaker(claim) if caller_task is None else None,
            isolated=await self._isolate(claim, caller_task, order, definition, earlier),
        )
        try:
            begun = await self._database.transact(subagent_launch.launch, new, time.time())
        except ToolError:
            if new.isolated is not None:
                name, holder = new.isolated.workspace.name, self._holders.of(claim.turn)
                await in_thread(partial(self._isolation.discard, order.call, name, holder))
            raise
        self.wake(begun.lane)
        return begun

    @property
    def _isolation(self) -> SubagentIsolation:
        settings, origin = self._agent.settings, self._agent.workspace.origin
        return SubagentIsolation(
            ProjectWorktrees(origin, settings.worktrees_parent),
            self._agent.toolbox,
            is_default=settings.subagents.worktrees,
        )

    async def _isolate(
        self,
        claim: TurnClaim,
        caller_task: SubagentTask | None,
        order: "SpawnRequest",
        definition: SubagentDefinition,
        earlier: SubagentTask | None,
    ) -> IsolatedFolder | None:
        """Return the folder of a task in a worktree; a continued task retains its own.

        A call that is repeated after a crash finds the worktree of the first attempt.
        """
        isolation, request = self._isolation, order.request
        if earlier is None:
            is_background = subagent_launch.is_background(claim, caller_task, request, definition)
            is_required = isolation.is_wanted(
                request, definition, order.call, is_background=is_background
            )
            if is_required is False:
                return None
            name = worktree_name(definition.name, claim.session, claim.turn, order.call.call.id)
        else:
            folder = await self._database.transact(session_folders.of_session, earlier.session)
            if earlier.definition.isolation is None or folder is None:
                return None
            name, is_required = Path(folder.workspace).name, True
        prepare = partial(
            isolation.prepare,
            *(order.call, name),
            holder=self._holders.of(claim.turn),
            ended=await self._ended_holders(order.call),
            is_required=bool(is_required),
        )
        return await in_thread(prepare)

    async def _ended_holders(self, call: CallContext) -> Mapping[str, str]:
        """Return the holders of locks, by worktree, that have ended without removing them."""
        holders = await in_thread(partial(self._isolation.holders, call))
        return await self._database.transact(self._holders.ended, holders)

    @property
    def _holders(self) -> TurnHolders:
        record = self._agent.workspace.origin.worktrees
        return TurnHolders(record.own_folder if record else None)

    async def with_worktree(self, subagent_task: SubagentTask, outcome: TaskOutcome) -> TaskOutcome:
        """Commit the changes in a task's worktree, if it has one.

        Return the outcome with a text about them.
        """
        if subagent_task.definition.isolation is None:
            return outcome
        session = subagent_task.session
        folder = await self._database.transact(session_folders.of_session, session)
        if folder is None:
            return outcome
        is_busy = bool(self._agent.toolbox.tasks(session))
        finish = partial(
            self._isolation.finish,
            *(Path(folder.workspace), subagent_task.agent, subagent_task.id),
            holder=self._holders.of(subagent_task.turn_id),
            is_busy=is_busy,
        )
        return replace(outcome, text=f"{outcome.text}\n\n{await in_thread(finish)}")


@frozen
class SpawnRequest:
    """Call that starts a sub-agent; `model` is the model of the calling turn."""

    request: base.SubagentRequest
    call: CallContext
    model: str | None


@frozen
class _StoreSpawner:
    """Implements `agent.tools.base.Spawn` for one turn."""

    coordinator: SubagentCoordinator
    claim: TurnClaim
    caller_task: SubagentTask | None
    model: str | None

    async def __call__(self, request: base.SubagentRequest, call: CallContext) -> ToolResult:
        sent = SpawnRequest(request, call, self.model)
        return await self.coordinator.send(self.claim, self.caller_task, sent)
