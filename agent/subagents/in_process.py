"""Sub-agents of a library user's agent, which run in its process and end with it.

A sub-agent meant for the background is awaited here: no later turn would receive its result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from agent import events
from agent.errors import LimitReached, ToolError
from agent.per_loop import PerLoop
from agent.providers.usage import NANO, Charge, Receipt, UsageMeter, UsageTotals, dollars
from agent.records import frozen
from agent.security.taint.taint import TaintState
from agent.serialization import event_to_json
from agent.subagents import profile
from agent.subagents.catalog import SubagentCatalog
from agent.subagents.definition import SubagentDefinition
from agent.tools.base import CallContext, SubagentRequest
from agent.turn.request import AgentServices, TurnRequest
from agent.turn.runner import AgentTurn
from agent.types import Message, Result, Taint, ToolResult, user

_MAX_RESUMABLE = 64


@frozen
class _Resumable:
    """State of a finished sub-agent for `resume`; `caller` is the session that started it."""

    caller: str
    definition: SubagentDefinition
    model: str | None
    messages: tuple[Message, ...]
    taint: frozenset[Taint]


class InProcessSubagents:
    """Runner for the sub-agents of one agent, which are numbered in the order of their start."""

    def __init__(self, agent: AgentServices, catalogue: SubagentCatalog) -> None:
        self._agent = agent
        self._catalogue = catalogue
        self._limits = agent.settings.subagents
        self._resumable: dict[int, _Resumable] = {}
        self._number = 0
        limit = self._limits.max_parallel
        self._slots = PerLoop(lambda: asyncio.Semaphore(limit))

    def sending(self, task: TurnRequest, depth: int = 0) -> TurnRequest:
        """Return the turn with the ability to start sub-agents, up to the maximum depth."""
        if depth >= self._limits.max_depth:
            return task
        spawn = _InProcessSpawner(self, task, depth)
        return replace(task, environment=replace(task.environment, spawn=spawn))

    async def send(
        self, request: SubagentRequest, call: CallContext, caller: TurnRequest, depth: int
    ) -> ToolResult:
        """Run a sub-agent and return its result. Raises `ToolError`."""
        resumed = self._earlier(request, call.session)
        definition = resumed.definition if resumed else self._find(request, call.workspace)
        model, note = profile.model_for(self._agent.models, request.model, definition, caller.model)
        if resumed is not None and request.model is None:
            model = resumed.model
        self._number += 1
        number = self._number
        task = self._task(caller, definition, number, depth + 1)
        taint = (
            call.taint | profile.taint_of(definition) | (resumed.taint if resumed else frozenset())
        )
        earlier = resumed.messages if resumed else ()
        task = replace(
            task,
            messages=[*earlier, user(request.prompt)],
            model=model,
            exposure=TaintState(taint, from_person=False, budget=caller.exposure.budget),
        )

        async def tell(event: events.Event) -> None:
            wrapped = events.FromAgent(
                definition.name, str(number), request.title, event_to_json(event)
            )
            await call.tell(wrapped)

        if depth == 0:
            async with self._slots.get():
                result = await self._run(task, tell)
        else:
            # The caller already has a slot, and waits for this sub-agent.
            result = await self._run(task, tell)
        messages = (*task.messages, *result.messages)
        self._keep(
            number, _Resumable(call.session, definition, model, messages, task.exposure.taint)
        )
        replies = [m.text.strip() for m in result.messages if m.role == "assistant"]
        text = next(
            (reply for reply in reversed(replies) if reply), result.text or "It said nothing."
        )
        text = profile.result_text(definition.name, number, text)
        failed = result.stopped is not None
        report = f"{text}\n{note}" if note else text
        return ToolResult(report, is_error=failed, taint=task.exposure.taint)

    def _task(
        self, caller: TurnRequest, definition: SubagentDefinition, number: int, depth: int
    ) -> TurnRequest:
        who = f"sub-agent {definition.name} ({number})"
        may_send = depth < self._limits.max_depth
        parent = caller.environment
        recording = replace(
            parent.recording,
            session=parent.recording.session or parent.session,
            prefix=f"{parent.recording.prefix}{number}:",
        )
        task = TurnRequest(
            environment=parent.for_subagent(
                f"{parent.session}.{number}", definition.name, recording
            ),
            messages=[],
            permissions=profile.permissions_of(caller.permissions, definition, who),
            max_iterations=definition.max_turns,
            meter=_BudgetedMeter(caller.meter, self._limits.max_cost_usd),
            character=profile.persona_for(definition, self._agent.toolbox, may_send=may_send),
            hooks=caller.hooks,
            is_prompted=False,
            tracing=caller.tracing,
        )
        return self.sending(task, depth)

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
                            await tell(events.Done(replace(result, messages=())))
                        case events.Error():
                            error = event
                            await tell(event)
                        case _ if isinstance(event, events.SubagentStep):
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
            raise ToolError(f"There is no sub-agent with the number {request.resume[:40]!r}.")
        return resumed

    def _find(self, request: SubagentRequest, root: Path) -> SubagentDefinition:
        catalogue = self._catalogue
        agents = catalogue.load(root)
        return profile.find(agents, request.agent, lambda name: catalogue.find(name, root))

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
        if most is not None and self.spent.nano + (estimate.nano or 0) > most * NANO:
            raise LimitReached(f"The limit of {dollars(round(most * NANO))} for it is reached.")
        return await self._meter.before(estimate)

    async def after(self, charge: Charge) -> Receipt:
        receipt = await self._meter.after(charge)
        self.spent = self.spent.plus(charge)
        return replace(receipt, turn=self.spent)
