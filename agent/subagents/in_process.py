"""Sub-agents of a library user's agent, which run in its process and end with it.

A sub-agent meant for the background is awaited here: no later turn would receive its result.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent import events
from agent.errors import LimitReached, ToolError
from agent.per_loop import PerLoop
from agent.providers.usage import NUSD_PER_USD, Charge, Receipt, UsageMeter, UsageTotals, dollars
from agent.records import frozen
from agent.security.files.file_io import in_thread
from agent.security.sandbox.orphan_processes import is_gone, process_mark
from agent.security.taint.taint import TaintState
from agent.subagents import profile
from agent.subagents.catalog import SubagentCatalog
from agent.subagents.definition import SubagentDefinition
from agent.subagents.isolation import IsolatedFolder, SubagentIsolation, worktree_name
from agent.subagents.slots import ConversationSlots
from agent.tools.base import CallContext, SubagentRequest
from agent.turn.request import AgentServices, TurnRequest
from agent.turn.runner import AgentTurn
from agent.types import Message, Result, Taint, ToolResult, user
from agent.worktrees.project_worktrees import ProjectWorktrees

_MAX_RESUMABLE = 64
# Begins the holder of a worktree's lock.
_PROCESS = "process "


@frozen
class _Resumable:
    """State of a finished sub-agent for `resume`; `caller` is the session that started it.

    It worked in `worktree`, if that is not None.
    """

    caller: str
    definition: SubagentDefinition
    model: str | None
    messages: tuple[Message, ...]
    taint: frozenset[Taint]
    worktree: Path | None = None


def _holder() -> str:
    """Return the name of this process as a holder of worktrees."""
    return _PROCESS + "".join(process_mark().values())


class InProcessSubagents:
    """Runner for the sub-agents of one agent, which are numbered in the order of their start."""

    def __init__(self, agent: AgentServices, catalogue: SubagentCatalog) -> None:
        self._agent = agent
        self._catalogue = catalogue
        self._limits = agent.settings.subagents
        self._resumable: dict[int, _Resumable] = {}
        self._number = 0
        self._slots = PerLoop(ConversationSlots)

    @property
    def _isolation(self) -> SubagentIsolation:
        settings = self._agent.settings
        return SubagentIsolation(
            ProjectWorktrees(self._agent.workspace.origin, settings.worktrees_parent),
            self._agent.toolbox,
            is_default=settings.subagents.worktrees and settings.project,
        )

    def sending(self, task: TurnRequest, depth: int = 0) -> TurnRequest:
        """Return the turn with the ability to start sub-agents, up to the maximum depth."""
        if not self._limits.may_spawn(depth):
            return task
        spawn = _InProcessSpawner(self, task, depth)
        return replace(task, environment=replace(task.environment, spawn=spawn))

    async def send(
        self, request: SubagentRequest, call: CallContext, caller: TurnRequest, depth: int
    ) -> ToolResult:
        """Run a sub-agent and return its result. Raises `ToolError`."""
        resumed = self._earlier(request, call.session)
        # Before the first await, so that parallel calls are numbered in their order.
        self._number += 1
        number = self._number
        if resumed is None:
            definition = await profile.find(self._catalogue, request.agent, call.workspace)
        else:
            definition = resumed.definition
        model, note = profile.requested_model(
            self._agent.models,
            request,
            definition,
            caller=caller.model,
            earlier=resumed.model if resumed else None,
        )
        isolated = await self._isolate(request, call, definition, resumed, number)
        if isolated is not None:
            definition = replace(definition, isolation="worktree")
        prompt = request.prompt if isolated is None else f"{request.prompt}\n\n{isolated.prompt}"
        parent = caller.environment
        # The conversation cannot undo changes in another folder.
        session = (parent.recording.session or parent.session) if isolated is None else ""
        recording = replace(
            parent.recording, session=session, prefix=f"{parent.recording.prefix}{number}:"
        )
        taint = call.taint | profile.taint_of(definition)
        environment = parent.for_subagent(f"{parent.session}.{number}", definition.name, recording)
        task = TurnRequest(
            environment=environment if isolated is None else isolated.apply(environment),
            messages=[*(resumed.messages if resumed else ()), user(prompt)],
            permissions=caller.permissions,
            model=model,
            exposure=TaintState(
                taint | resumed.taint if resumed else taint, budget=caller.exposure.budget
            ),
            meter=_BudgetedMeter(caller.meter, self._limits.max_cost_usd),
            hooks=caller.hooks,
            tracing=caller.tracing,
        )
        task = profile.as_subagent(task, definition, self._agent, number=number, depth=depth + 1)
        task = self.sending(task, depth + 1)

        async def tell(event: events.Event) -> None:
            step = profile.step_of(definition.name, number, request.title, event)
            if step is not None:
                await call.tell(step)

        folder = None if isolated is None else isolated.workspace
        finish = partial(self._finish, folder, definition.name, number)
        try:
            if depth == 0:
                async with self._slots.get().hold(call.session, self._limits.max_parallel):
                    result = await self._run(task, tell)
            else:
                # The caller already has a slot, and waits for this sub-agent.
                result = await self._run(task, tell)
        except ToolError as exc:
            raise ToolError(f"{exc}{await finish()}") from exc
        except BaseException:
            await finish()
            raise
        messages = (*task.messages, *result.messages)
        self._keep(
            number,
            _Resumable(call.session, definition, model, messages, task.exposure.taint, folder),
        )
        text = profile.result_text(definition.name, number, profile.final_reply(result))
        text = f"{text}{await finish()}"
        failed = result.stopped is not None
        return profile.tool_result(text, note, task.exposure.taint, is_error=failed)

    async def _finish(self, folder: Path | None, agent: str, number: int) -> str:
        """Commit the changes in a worktree; return a line about them, or '' without a worktree."""
        if folder is None:
            return ""
        finish = partial(self._isolation.finish, folder, agent, number, holder=_holder())
        text = await in_thread(finish)
        return f"\n{text}"

    async def _isolate(
        self,
        request: SubagentRequest,
        call: CallContext,
        definition: SubagentDefinition,
        resumed: _Resumable | None,
        number: int,
    ) -> IsolatedFolder | None:
        """Return the worktree of a sub-agent; a resumed one continues in its own."""
        if resumed is not None:
            name = resumed.worktree.name if resumed.worktree is not None else None
            is_required = True
        else:
            name = worktree_name(definition.name, call.session, number, time.time())
            is_wanted = self._isolation.is_wanted(
                request, definition, call, is_background=bool(request.background)
            )
            name, is_required = None if is_wanted is False else name, bool(is_wanted)
        if name is None:
            return None
        isolation, holder = self._isolation, _holder()
        ended = {
            worktree: other
            for worktree, other in (await in_thread(partial(isolation.holders, call))).items()
            if other.startswith(_PROCESS) and is_gone(other.removeprefix(_PROCESS))
        }
        prepare = partial(
            isolation.prepare,
            *(call, name),
            holder=holder,
            ended=ended,
            is_required=is_required,
        )
        try:
            return await in_thread(prepare)
        except asyncio.CancelledError:
            await in_thread(partial(isolation.discard, call, name, holder))
            raise

    async def _run(
        self, task: TurnRequest, tell: Callable[[events.Event], Awaitable[None]]
    ) -> Result:
        result: Result | None = None
        error: events.Error | None = None
        try:
            async with aclosing(AgentTurn(self._agent, task).events()) as stream:
                async for event in stream:
                    match event:
                        case events.Done():
                            result = event.result
                        case events.Error():
                            error = event
                    await tell(event)
        finally:
            await self._agent.toolbox.end(task.environment.session)
        assert result is not None, "a turn ends with Done"
        if error is not None:
            raise ToolError(f"The sub-agent failed: {error.message}")
        return result

    def _earlier(self, request: SubagentRequest, session: str) -> _Resumable | None:
        if request.resume is None:
            return None
        resumed = next(
            (subagent for n, subagent in self._resumable.items() if str(n) == request.resume), None
        )
        if resumed is None or resumed.caller != session:
            raise profile.not_resumable(request)
        return resumed

    def _keep(self, number: int, resumable: _Resumable) -> None:
        self._resumable[number] = resumable
        while len(self._resumable) > _MAX_RESUMABLE:
            del self._resumable[next(iter(self._resumable))]


@frozen
class _InProcessSpawner:
    """Implementation of `agent.tools.base.Spawn` for one turn."""

    subagents: InProcessSubagents
    caller: TurnRequest
    depth: int

    async def __call__(self, request: SubagentRequest, call: CallContext) -> ToolResult:
        return await self.subagents.send(request, call, self.caller, self.depth)


class _BudgetedMeter:
    """A `UsageMeter` for a sub-agent that also charges its caller.

    `spent` is the sub-agent's own usage.
    """

    def __init__(self, meter: UsageMeter, most_usd: float | None) -> None:
        self.spent = UsageTotals()
        self._meter = meter
        self._most_usd = most_usd

    async def before(self, estimate: Charge) -> tuple[str, ...]:
        most = self._most_usd
        if (
            most is not None
            and self.spent.cost_nusd + (estimate.cost_nusd or 0) > most * NUSD_PER_USD
        ):
            raise LimitReached(
                f"The limit of {dollars(round(most * NUSD_PER_USD))} for it is reached."
            )
        return await self._meter.before(estimate)

    async def after(self, charge: Charge) -> Receipt:
        receipt = await self._meter.after(charge)
        self.spent = self.spent.plus(charge)
        return replace(receipt, turn=self.spent)
