"""One tool call from the model's words to a result: check, plan, decide, ask, run."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from agent.errors import KoreError, PolicyDenied, ToolError
from agent.frozen import frozen
from agent.language import ENGLISH, speaking
from agent.prompts import fill, load
from agent.security.audit import AuditEntry, AuditSink
from agent.security.policy import (
    ASKED_IN_EVERY_MODE,
    Answered,
    ApprovalRequest,
    Approver,
    Decision,
    Narrows,
    Policy,
    Shows,
    ToolRequest,
    Unanswered,
    tightest_of,
)
from agent.security.redaction import Redactor
from agent.security.taint import BOTH, NOTHING, UNTRUSTED, Exposure, way_out
from agent.tools.base import Brings, CallContext, Lasts, Plan, Plans, Tool
from agent.tools.output import bounded
from agent.tools.toolbox import Toolbox
from agent.tools.views import Views
from agent.types import Effect, ToolCall, ToolResult

log = logging.getLogger(__name__)
T = TypeVar("T")


@frozen
class Permissions:
    """Who decides: the policy first, then the person when the policy says "ask".

    `audit` records each decision before it takes effect, as one about `agent_id` in `role`; a
    function says it anew each time, because others may join in while the turn runs.
    """

    policy: Policy
    approver: Approver | None = None
    audit: AuditSink | None = None
    role: str | Callable[[], str] = "build"
    agent_id: str = "main"


class _Denied(PolicyDenied):
    """The text is for the model; `reason` is what the record says."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Runner:
    """Runs calls. Whatever goes wrong inside a tool becomes a result that the model reads.

    `exposure` is what the session has taken in; it can make a decision stricter. `redactor` cleans
    what a tool answers and what a person is asked. Of a result the model reads `limit_bytes`.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        permissions: Permissions,
        *,
        timeout_s: float,
        exposure: Exposure | None = None,
        redactor: Redactor | None = None,
        limit_bytes: int = 10_000,
    ) -> None:
        self.exposure = exposure or Exposure()
        self.redactor = redactor or Redactor()
        self.toolbox = toolbox
        self._permissions = permissions
        self._timeout_s = timeout_s
        self._limit_bytes = limit_bytes

    @property
    def agent(self) -> str:
        """Who calls: `main`, or a sub-agent."""
        return self._permissions.agent_id

    @property
    def views(self) -> Views:
        return self.toolbox.views

    def effect(self, call: ToolCall) -> Effect:
        """The effect that the call's tool declares; an unknown tool has none."""
        tool = self.toolbox.find(call.name)
        return tool.effect if tool else "read"

    async def run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """The call's result. `on_start` is awaited between the permission and the first effect."""
        result = _clean(await self._run(context, on_start), self.redactor)
        return bounded(result, context.workspace, self._limit_bytes)

    async def _run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        brings = NOTHING
        try:
            tool, args = self._check(context.call)
            # Even a failure may quote what the tool has seen.
            brings = tool.brings if isinstance(tool, Brings) else BOTH
            context = self._bounded(tool, context)
            plan = Plan()
            if isinstance(tool, Plans):
                plan = await self._within(tool, tool.plan(args, context))
            await self._permit(tool, args, plan, context)
            await on_start()
            # Before as well as after: what works there may end meanwhile.
            brings |= self.toolbox.lingering(context.workspace)
            result = _checked(tool, await self._within(tool, tool.run(args, context)))
            lingering = self.toolbox.lingering(context.workspace)
            return replace(result, taint=result.taint | brings | lingering)
        except ToolError as exc:
            quoted = UNTRUSTED if exc.untrusted else NOTHING
            return ToolResult(str(exc), is_error=True, taint=brings | quoted)
        except PolicyDenied as exc:
            return ToolResult(str(exc), is_error=True)

    async def _within(self, tool: Tool, work: Coroutine[Any, Any, T]) -> T:
        """What the tool's own code comes to. Whatever goes wrong in it raises `ToolError`."""
        try:
            lasts = isinstance(tool, Lasts) and tool.lasts
            async with asyncio.timeout(None if lasts else self._timeout_s) as deadline:
                with speaking(ENGLISH):  # the model reads it
                    return await work
        except (ToolError, PolicyDenied, Unanswered):
            raise
        except asyncio.CancelledError as exc:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Nobody cancelled this call: something that the tool waited for was cancelled.
            raise ToolError(f"{tool.name} failed: what it waited for was cancelled.") from exc
        except Exception as exc:
            if deadline.expired():
                text = f"{tool.name} was stopped: it took longer than {self._timeout_s:g} s."
                raise ToolError(text) from exc
            # A bug in a tool must not end the conversation.
            log.exception("tool %s failed", tool.name)
            raise ToolError(f"{tool.name} failed: {type(exc).__name__}: {exc}") from exc

    def _check(self, call: ToolCall) -> tuple[Tool, Mapping[str, Any]]:
        tool = self.toolbox.get(call.name)
        if call.arguments is None:
            raise ToolError(f"The arguments of {tool.name} are not a JSON object: {call.raw[:200]}")
        return tool, self.toolbox.validate(tool, call.arguments)

    def _bounded(self, tool: Tool, context: CallContext) -> CallContext:
        """The call with what it may reach, and with a record of what it does."""
        policy = self._permissions.policy
        hosts = policy.hosts(tool.name) if isinstance(policy, Narrows) else None
        paths = policy.paths(tool.name) if isinstance(policy, Shows) else ()

        async def record(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
            await self._record(tool, what, context, allowed=allowed, reason=reason)

        return replace(context, hosts=hosts, paths=paths, record=record)

    async def _permit(
        self, tool: Tool, args: Mapping[str, Any], plan: Plan, context: CallContext
    ) -> None:
        """Raises `PolicyDenied`. What was decided is on record before anything happens."""
        try:
            reason = await self._consent(tool, args, plan, context)
        except _Denied as exc:
            try:
                await self._record(tool, args, context, allowed=False, reason=exc.reason)
            except KoreError as unrecorded:
                log.error("%s was denied, which could not be recorded: %s", tool.name, unrecorded)
            raise
        try:
            await self._record(tool, args, context, allowed=True, reason=reason)
        except KoreError as exc:
            # What cannot be recorded is not done.
            raise PolicyDenied(f"Not allowed: {exc}") from exc

    async def _record(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: CallContext,
        *,
        allowed: bool,
        reason: str,
    ) -> None:
        given = self._permissions
        if given.audit is None:
            return
        entry = AuditEntry(
            ts=time.time(),
            agent_id=given.agent_id,
            role=given.role if isinstance(given.role, str) else given.role(),
            tool=tool.name,
            allowed=allowed,
            reason=reason,
            params=args,
            session_id=context.session,
        )
        await given.audit.record(entry)

    async def _consent(
        self, tool: Tool, args: Mapping[str, Any], plan: Plan, context: CallContext
    ) -> str:
        """Why the call may run. Raises `_Denied`."""
        request = ToolRequest(
            tool=tool.name,
            effect=tool.effect,
            arguments=args,
            workspace=context.workspace,
            reads=plan.reads,
            changes=plan.changes,
            creates=plan.creates,
            command=plan.command,
            folder=plan.folder,
            hosts=plan.hosts,
            sends=plan.sends,
            taint=self.exposure.taint,
        )
        decision = self._permissions.policy.decide(request)
        if decision.verdict == "allow" and plan.sends is not None:
            passes = self.exposure.may_pass(plan.sends, leaves=bool(plan.hosts))
            request = replace(request, quoted=passes)
        if (objection := way_out(request, silent=_is_silent(tool))) is not None:
            decision = tightest_of([decision, objection])
        reason = f"{decision.reason} ({decision.rule})"
        if decision.verdict == "allow":
            return reason
        if decision.verdict == "deny":
            raise _Denied(f"Not allowed: {decision.reason}", reason)
        approver = self._permissions.approver
        if approver is None:
            raise _Denied(_nobody(decision), f"{reason}; there was nobody to ask")
        question = ApprovalRequest(
            tool=tool.name,
            arguments=args,
            reason=decision.reason,
            call_id=context.call.id,
            rule=decision.rule,
            command=plan.command,
            folder=plan.folder,
            sends=plan.sends,
            diff=plan.diff and self.redactor.clean(plan.diff),
        )
        try:
            given = await approver.ask(question)
        except KoreError as exc:
            raise _Denied(f"Not allowed: {exc}", f"{reason}; {exc}") from exc
        if not isinstance(given, Answered):
            said = "no" if given == "deny" else given
            given = Answered(given, f"asked, and the answer was {said}")
        if given.answer == "deny":
            raise _Denied(load("person_said_no"), f"{reason}; {given.account}")
        return f"{reason}; {given.account}"


def _nobody(decision: Decision) -> str:
    """Why a question that nobody hears is a no, and what would make it a yes."""
    if decision.rule in ASKED_IN_EVERY_MODE:
        return fill("nobody_to_ask_ever", reason=decision.reason)
    return fill("nobody_to_ask", reason=decision.reason)


def _is_silent(tool: Tool) -> bool:
    """Whether nobody has said if a call leaves: it may ask anybody anything."""
    if isinstance(tool, Plans):
        return False
    return not isinstance(tool, Brings) or "untrusted" in tool.brings


def _clean(result: ToolResult, redactor: Redactor) -> ToolResult:
    if not redactor:
        return result
    clean = redactor.clean
    return replace(
        result,
        for_model=clean(result.for_model),
        for_user=None if result.for_user is None else clean(result.for_user),
        artifacts=tuple(replace(one, content=clean(one.content)) for one in result.artifacts),
        ends_with=None if result.ends_with is None else clean(result.ends_with),
    )


def _checked(tool: Tool, result: object) -> ToolResult:
    if not isinstance(result, ToolResult):
        found = type(result).__name__
        raise ToolError(f"{tool.name} failed: its run() must return a ToolResult, found {found}.")
    return result
