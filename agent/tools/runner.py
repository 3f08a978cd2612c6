"""One tool call from the model's words to a result: read, plan, decide, check, ask, run."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from agent.errors import KoreError, PolicyDenied, ToolError, is_disk_unwritable
from agent.i18n import ENGLISH, use_locale
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.audit import AuditEntry, AuditSink
from agent.security.files import file_io
from agent.security.files.folder_identity import check_folder
from agent.security.policy.base import (
    AnswerPending,
    Approver,
    LimitsHosts,
    LimitsPaths,
    LimitsWriting,
    Policy,
)
from agent.security.redaction import MARK, Redactor, has_mark
from agent.security.taint.taint import BOTH, NOTHING, UNTRUSTED, TaintState
from agent.tools.authorization import Authorizer, BindsAnswers, CallDenied
from agent.tools.base import (
    CallContext,
    DeclaresTaint,
    DescribesEffects,
    EffectPlan,
    HasForeignSchema,
    LimitsOutput,
    LongRunning,
    Tool,
)
from agent.tools.file_views import FileViews
from agent.tools.output_spill import bounded
from agent.tools.pictures import keep_images
from agent.tools.registry import ToolRegistry
from agent.tools.run_context import ToolInterceptor, ToolTracing
from agent.tools.traits import traits_of
from agent.types import Effect, Taint, ToolCall, ToolResult

log = logging.getLogger(__name__)
T = TypeVar("T")


@frozen
class Permissions:
    """Who decides: the policy first, then the person when the policy says "ask".

    `audit` records each decision before it takes effect, as one about `agent_id` in `role`; a
    function says it anew each time, because others may join in while the turn runs. `full_access`
    tells the model that the policy allows all.
    """

    policy: Policy
    approver: Approver | None = None
    audit: AuditSink | None = None
    role: str | Callable[[], str] = "build"
    agent_id: str = "main"
    full_access: bool = False


class ToolRunner:
    """Runs calls. Any failure inside a tool becomes a result that the model reads.

    `exposure` is what the session has taken in; it can make a decision stricter. `redactor` cleans
    what a tool answers and what a person is asked. Of a result the model reads `limit_bytes`.
    """

    def __init__(
        self,
        toolbox: ToolRegistry,
        permissions: Permissions,
        *,
        timeout_s: float,
        exposure: TaintState | None = None,
        redactor: Redactor | None = None,
        limit_bytes: int = 10_000,
    ) -> None:
        self.exposure = exposure or TaintState()
        # One that knows nothing yet may learn.
        self.redactor = Redactor() if redactor is None else redactor
        self.toolbox = toolbox
        self._permissions = permissions
        approver = permissions.approver
        self._consent = Authorizer(permissions.policy, approver, self.exposure, self.redactor)
        self._timeout_s = timeout_s
        self._limit_bytes = limit_bytes
        # Hooks of the program, if it has any.
        self.interceptor: ToolInterceptor | None = None
        self.tracing: ToolTracing | None = None

    @property
    def agent(self) -> str:
        """Who calls: `main`, or a sub-agent."""
        return self._permissions.agent_id

    @property
    def views(self) -> FileViews:
        return self.toolbox.views

    def effect(self, call: ToolCall) -> Effect:
        """The effect that the call's tool declares; an unknown tool has none."""
        return self.toolbox.effect(call.name)

    async def run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """The call's result. `on_start` is awaited between the permission and the first effect."""
        if self.tracing is None:
            return await self._finished(context, on_start)
        call = context.call
        tool = self.toolbox.find(call.name)
        with self.tracing.tool(call, tool.description if tool else "") as end:
            result = await self._finished(context, on_start)
            end(result)
            return result

    async def _finished(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """The result as the model reads it."""
        result = _clean(await self._intercepted(context, on_start), self.redactor)
        tool = self.toolbox.find(context.call.name)
        own = tool.output_limit_bytes if isinstance(tool, LimitsOutput) else self._limit_bytes
        if result.images:
            keep = partial(keep_images, result, context.workspace)
            result = await file_io.in_thread(keep)
        return bounded(result, context.workspace, own)

    async def _intercepted(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """The result, as far as the program's hooks leave it to the call."""
        if (refusal := self._secret_refusal(context.call)) is not None:
            if (tool := self.toolbox.find(context.call.name)) is not None:
                await self._record_refusal(tool, {}, context, "a secret in the arguments")
            return ToolResult(refusal, is_error=True)
        if self.interceptor is None:
            return await self._run(context, on_start)
        result = await self.interceptor.before_tool(context)
        if result is None:
            result = await self._run(context, on_start)
        elif result.is_error and (tool := self.toolbox.find(context.call.name)) is not None:
            reason = self.redactor.clean(result.for_model)
            await self._record_refusal(tool, context.call.arguments or {}, context, reason)
        changed = await self.interceptor.after_tool(context, result)
        # Other words may still quote what the tool has seen.
        return replace(changed, taint=changed.taint | result.taint)

    def _secret_refusal(self, call: ToolCall) -> str | None:
        """Return why a call must not run that holds a secret, or the mark of a redaction."""
        if call.arguments is None:
            return load_prompt("secret_in_call") if MARK in call.raw else None
        if self.redactor.occurs_in(call.arguments):
            return load_prompt("secret_in_call")
        if has_mark(call.arguments):
            return render_prompt("mark_in_call", mark=MARK)
        return None

    async def _run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        brings = NOTHING
        try:
            tool = self.toolbox.get(context.call.name)
            if (arguments := context.call.arguments) is None:
                text = f"The arguments of {tool.name} are not a JSON object: "
                raise ToolError(text + context.call.raw[:200])
            # Even a failure may quote what the tool has seen, or the words of its schema.
            brings = tool.brings if isinstance(tool, DeclaresTaint) else BOTH
            args = await self._read(tool, arguments, context)
            brings |= _origin_taint(context, args, EffectPlan(), brings)
            context, plan = await self._prepare(tool, args, context)
            brings |= _origin_taint(context, args, plan, brings)
            is_allowed = await self._permit(tool, args, plan, context)
            # Meanwhile a person may have been asked.
            check_folder(context.environment.identity)
            await on_start()
            # As it was judged: what it finds on the disk now could be judged otherwise.
            context = replace(context, read_only=plan.read_only, is_allowed=is_allowed)
            # Before as well as after: what works there may end meanwhile.
            brings |= self.toolbox.background_taint(context.workspace)
            result = _checked(tool, await self._within(tool, tool.run(args, context)))
            lingering = self.toolbox.background_taint(context.workspace)
            return replace(result, taint=result.taint | brings | lingering)
        except ToolError as exc:
            quoted = UNTRUSTED if exc.untrusted else NOTHING
            return ToolResult(
                exc.text_for(is_owner=context.owner), is_error=True, taint=brings | quoted
            )
        except PolicyDenied as exc:
            return ToolResult(str(exc), is_error=True)

    async def _within(self, tool: Tool, work: Coroutine[Any, Any, T]) -> T:
        """What the tool's own code comes to. Any failure in it raises `ToolError`."""
        try:
            lasts = isinstance(tool, LongRunning) and tool.lasts
            async with asyncio.timeout(None if lasts else self._timeout_s) as deadline:
                with use_locale(ENGLISH):  # the model reads it
                    return await work
        except (ToolError, PolicyDenied, AnswerPending):
            raise
        except asyncio.CancelledError as exc:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # This call was not cancelled: something that the tool waited for was cancelled.
            raise ToolError(f"{tool.name} failed: something it waited for was cancelled.") from exc
        except SystemExit as exc:
            # A library function may call sys.exit; the program around it is not the tool's to end.
            raise ToolError(f"{tool.name} failed: it called sys.exit({exc.code!r}).") from exc
        except Exception as exc:
            if deadline.expired():
                text = f"{tool.name} was stopped: it took longer than {self._timeout_s:g} s."
                raise ToolError(text) from exc
            if is_disk_unwritable(exc):
                raise ToolError(f"{tool.name} failed: {exc.strerror}.") from exc
            # A bug in a tool must not end the conversation.
            log.exception("tool %s failed", tool.name)
            failure = ToolError(f"{tool.name} failed: {type(exc).__name__}: {exc}")
            # It may quote a service of the owner.
            failure.public = f"{tool.name} failed: {type(exc).__name__}."
            raise failure from exc

    async def _read(
        self, tool: Tool, arguments: Mapping[str, Any], context: CallContext
    ) -> Mapping[str, Any]:
        """The arguments as the policy judges them. Any failure is a refusal on record, and raises
        `ToolError`."""

        async def read() -> Mapping[str, Any]:
            if _has_foreign_schema(tool):
                return self.toolbox.read(tool, arguments)
            return self.toolbox.validate(tool, arguments)

        return await self._recorded(tool, arguments, context, "not understood", read())

    async def _check_foreign(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext
    ) -> None:
        """Check arguments by a schema that another program wrote, as far as that is still to be
        done. Any failure is a refusal on record, and raises `ToolError`."""

        async def check() -> None:
            self.toolbox.check(tool, args)

        if _has_foreign_schema(tool):
            await self._recorded(tool, args, context, "wrong arguments", check())

    async def _prepare(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext
    ) -> tuple[CallContext, EffectPlan]:
        """The call within its bounds, and its plan. Any failure is a refusal on record, and
        raises `ToolError` or `PolicyDenied`."""
        work = self._planned(tool, args, context)
        return await self._recorded(tool, args, context, "not prepared", work)

    async def _recorded(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: CallContext,
        what: str,
        work: Coroutine[Any, Any, T],
    ) -> T:
        """What this step towards a call comes to. A failure in it is a refusal on record."""
        try:
            return await self._within(tool, work)
        except (ToolError, PolicyDenied) as exc:
            await self._record_refusal(tool, args, context, f"{what}: {exc}")
            raise

    async def _planned(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext
    ) -> tuple[CallContext, EffectPlan]:
        check_folder(context.environment.identity)
        bounded = self._bounded(tool, context)
        plan = (
            await tool.plan(args, bounded) if isinstance(tool, DescribesEffects) else EffectPlan()
        )
        return bounded, plan

    def _bounded(self, tool: Tool, context: CallContext) -> CallContext:
        """The call with what it may reach, and with a record of what it does."""
        policy = self._permissions.policy
        rule = (tool.name, traits_of(tool).governed_by)
        hosts = policy.hosts(*rule) if isinstance(policy, LimitsHosts) else None
        paths = policy.paths(*rule) if isinstance(policy, LimitsPaths) else ()
        may_write = not isinstance(policy, LimitsWriting) or policy.may_write(*rule)

        async def record(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
            await self._record(tool, what, context, allowed=allowed, reason=reason)

        return replace(context, hosts=hosts, paths=paths, may_write=may_write, record=record)

    async def _permit(
        self, tool: Tool, args: Mapping[str, Any], plan: EffectPlan, context: CallContext
    ) -> bool:
        """Return whether a person has allowed the call. Raises `PolicyDenied`, and `ToolError` for
        arguments that do not fit a foreign schema. What was decided is on record before anything
        happens."""
        try:
            decision = await self._consent.judge(tool, args, plan, context, self.interceptor)
            # A person is asked only about calls that can run.
            await self._check_foreign(tool, args, context)
            if decision.verdict == "ask" and isinstance(tool, BindsAnswers):
                binding = tool.bind(plan, args, context)
                plan = await self._recorded(tool, args, context, "not prepared", binding)
            consent = await self._consent.settle(
                decision, tool, args, plan, context, self.interceptor
            )
        except CallDenied as exc:
            await self._record_refusal(tool, args, context, exc.reason)
            raise
        try:
            await self._record(tool, args, context, allowed=True, reason=consent.reason)
        except KoreError as exc:
            # What cannot be recorded is not done.
            raise PolicyDenied(f"Not allowed: {exc}") from exc
        return consent.by_person

    async def _record_refusal(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext, reason: str
    ) -> None:
        """A refusal counts also when it cannot be recorded."""
        try:
            await self._record(tool, args, context, allowed=False, reason=reason)
        except KoreError as exc:
            log.error("%s was denied, and the audit log could not be written: %s", tool.name, exc)

    async def _record(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: CallContext,
        *,
        allowed: bool,
        reason: str,
    ) -> None:
        permissions = self._permissions
        if permissions.audit is None:
            return
        entry = AuditEntry(
            ts=time.time(),
            agent_id=permissions.agent_id,
            role=permissions.role if isinstance(permissions.role, str) else permissions.role(),
            tool=tool.name,
            allowed=allowed,
            reason=reason,
            params=args,
            session_id=context.session,
        )
        await permissions.audit.record(entry)


def _has_foreign_schema(tool: Tool) -> bool:
    return isinstance(tool, HasForeignSchema) and tool.has_foreign_schema


def _origin_taint(
    context: CallContext, args: Mapping[str, Any], plan: EffectPlan, brings: frozenset[Taint]
) -> frozenset[Taint]:
    """What a tool that shows files brings along by where they lie."""
    if "private" not in brings:
        return NOTHING
    paths = [context.workspace, *plan.reads, *plan.changes, *plan.creates]
    if plan.folder is not None:
        paths.append(plan.folder)
    path = args.get("path")
    if isinstance(path, str) and "\0" not in path:
        paths.append(context.workspace / path)
    return NOTHING if all(map(context.origin.is_own, paths)) else UNTRUSTED


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
        type_name = type(result).__name__
        raise ToolError(
            f"{tool.name} failed: its run() must return a ToolResult, found {type_name}."
        )
    return result
