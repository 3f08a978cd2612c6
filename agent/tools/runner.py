"""Execution of a tool call: read, plan, decide, check, ask, run."""

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
    """Permissions of calls: by the policy, then by the person if the policy says "ask".

    `audit` records each decision before it takes effect, under `agent_id` and `role`; `role` may be
    a function, because other people may join while the turn runs. `full_access` tells the model
    that the policy allows everything. If nobody can be asked, `remedy` names a setting that would
    allow calls that ask.
    """

    policy: Policy
    approver: Approver | None = None
    audit: AuditSink | None = None
    role: str | Callable[[], str] = "build"
    agent_id: str = "main"
    full_access: bool = False
    remedy: str = ""


class ToolRunner:
    """Runner of calls. Any failure inside a tool becomes a result that the model reads.

    `exposure` is the session's taint; it can make a decision stricter. `redactor` cleans the
    results of tools and the questions to a person. The model reads at most `limit_bytes` of a
    result.
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
        # An empty redactor may still learn secrets later.
        self.redactor = Redactor() if redactor is None else redactor
        self.toolbox = toolbox
        self._permissions = permissions
        self._consent = Authorizer(
            permissions.policy,
            permissions.approver,
            self.exposure,
            self.redactor,
            permissions.remedy,
        )
        self._timeout_s = timeout_s
        self._limit_bytes = limit_bytes
        # Hooks of the program, if there are any.
        self.interceptor: ToolInterceptor | None = None
        self.tracing: ToolTracing | None = None

    @property
    def agent(self) -> str:
        """Name of the calling agent: `main`, or a sub-agent."""
        return self._permissions.agent_id

    @property
    def views(self) -> FileViews:
        return self.toolbox.views

    def effect(self, call: ToolCall) -> Effect:
        """Return the effect that the call's tool declares; an unknown tool has none."""
        return self.toolbox.effect(call.name)

    async def run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """Return the call's result. `on_start` runs after the permission, before any effect."""
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
        """Return the result in the form that the model reads."""
        result = self._display(await self._intercepted(context, on_start), context)
        result = _clean(result, self.redactor)
        tool = self.toolbox.find(context.call.name)
        own = tool.output_limit_bytes if isinstance(tool, LimitsOutput) else self._limit_bytes
        if result.images:
            keep = partial(keep_images, result, context.workspace)
            result = await file_io.in_thread(keep)
        return bounded(result, context.workspace, own)

    def _display(self, result: ToolResult, context: CallContext) -> ToolResult:
        """Return the result with the paths of temporary files as commands know them."""
        shared_files = self.toolbox.shared_files(context)
        return result if shared_files is None else _converted(result, shared_files.display)

    async def _intercepted(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """Return the result; the program's hooks may replace or change it."""
        if (refusal := self._secret_refusal(context.call)) is not None:
            if (tool := self.toolbox.find(context.call.name)) is not None:
                await self._record_refusal(tool, {}, context, "a secret in the arguments")
            return ToolResult(refusal, is_error=True, is_denied=True)
        if self.interceptor is None:
            return await self._run(context, on_start)
        has_begun = False

        async def begin() -> None:
            nonlocal has_begun
            await on_start()
            has_begun = True

        result = await self.interceptor.before_tool(context)
        if result is None:
            result = await self._run(context, begin)
        elif result.is_error and (tool := self.toolbox.find(context.call.name)) is not None:
            reason = self.redactor.clean(result.for_model)
            await self._record_refusal(tool, context.call.arguments or {}, context, reason)
            result = replace(result, is_denied=True)
        changed = await self.interceptor.after_tool(context, result, has_begun=has_begun)
        # Even a changed text may quote data that the tool has seen.
        return replace(changed, taint=changed.taint | result.taint, is_denied=result.is_denied)

    def _secret_refusal(self, call: ToolCall) -> str | None:
        """Return the reason to reject a call with a secret or a redaction mark, or None."""
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
            # Even a failure may quote data that the tool has seen, or the text of its schema.
            brings = tool.brings if isinstance(tool, DeclaresTaint) else BOTH
            args = await self._read(tool, arguments, context)
            brings |= self._origin_taint(context, args, None, brings)
            context, plan = await self._prepare(tool, args, context)
            brings |= self._origin_taint(context, args, plan, brings)
            is_allowed = await self._permit(tool, args, plan, context)
            # Time may have passed while a person was asked.
            check_folder(context.environment.identity)
            await on_start()
            # Run the call as judged: the current state of the disk might be judged differently.
            context = replace(
                context, plan=plan, is_allowed=is_allowed, folder_access=plan.folder_access
            )
            # Before as well as after the call: background work may end meanwhile.
            brings |= self.toolbox.background_taint(context.workspace)
            result = _checked(tool, await self._within(tool, tool.run(args, context)))
            lingering = self.toolbox.background_taint(context.workspace)
            return replace(result, taint=result.taint | brings | lingering)
        except ToolError as exc:
            quoted = UNTRUSTED if exc.untrusted else NOTHING
            return ToolResult(context.error_text(exc), is_error=True, taint=brings | quoted)
        except PolicyDenied as exc:
            return ToolResult(str(exc), is_error=True, is_denied=True)

    async def _within(self, tool: Tool, work: Coroutine[Any, Any, T]) -> T:
        """Run the tool's own code and return its result. Any failure raises `ToolError`."""
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
            # A library function may call sys.exit, but a tool must not end the whole program.
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
            # The exception may quote a service of the owner.
            failure.public = f"{tool.name} failed: {type(exc).__name__}."
            raise failure from exc

    async def _read(
        self, tool: Tool, arguments: Mapping[str, Any], context: CallContext
    ) -> Mapping[str, Any]:
        """Return the arguments as the policy judges them.

        Any failure is recorded as a refusal and raises `ToolError`.
        """

        async def read() -> Mapping[str, Any]:
            if _has_foreign_schema(tool):
                return self.toolbox.read(tool, arguments)
            return self.toolbox.validate(tool, arguments)

        return await self._recorded(tool, arguments, context, "not understood", read())

    async def _check_foreign(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext
    ) -> None:
        """Check arguments against a schema from another program, if the tool has one.

        Any failure is recorded as a refusal and raises `ToolError`.
        """

        async def check() -> None:
            self.toolbox.check(tool, args)

        if _has_foreign_schema(tool):
            await self._recorded(tool, args, context, "wrong arguments", check())

    async def _prepare(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext
    ) -> tuple[CallContext, EffectPlan]:
        """Return the call within its limits, and its plan.

        Any failure is recorded as a refusal and raises `ToolError` or `PolicyDenied`.
        """
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
        """Run a step of preparing a call. A failure in it is recorded as a refusal."""
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
        """Return the call with the limits of the policy, and a recorder of its actions."""
        policy = self._permissions.policy
        rule = (tool.name, traits_of(tool).governed_by)
        hosts = policy.hosts(*rule) if isinstance(policy, LimitsHosts) else None
        paths = policy.paths(*rule) if isinstance(policy, LimitsPaths) else ()
        may_write = not isinstance(policy, LimitsWriting) or policy.may_write(*rule)

        async def record(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
            await self._record(tool, what, context, allowed=allowed, reason=reason)

        return replace(
            context,
            hosts=hosts,
            paths=paths,
            may_write=may_write,
            record=record,
            shared_files=self.toolbox.shared_files(context),
        )

    def _origin_taint(
        self,
        context: CallContext,
        args: Mapping[str, Any],
        plan: EffectPlan | None,
        brings: frozenset[Taint],
    ) -> frozenset[Taint]:
        """Return the taint of the files that a tool shows, based on their location.

        Programs of the machine and temporary files of the conversation have no taint, as in
        commands. Before there is a plan, only the arguments name the files.
        """
        if "private" not in brings:
            return NOTHING
        shared_files = self.toolbox.shared_files(context)
        planned = () if plan is None else (*plan.reads, *plan.changes, *plan.creates)
        paths = [context.workspace, *planned]
        if plan is not None and plan.folder is not None:
            paths.append(plan.folder)
        path = args.get("path")
        if isinstance(path, str) and "\0" not in path and not planned:
            if plan is None and shared_files is not None:
                path = shared_files.real_path(path, context.folders)
            paths.append(context.base / path)
        strange_paths = [path for path in paths if not context.origin.is_own(path)]
        if not strange_paths:
            return NOTHING
        if shared_files is None or context.workspace in strange_paths:
            return UNTRUSTED
        return NOTHING if all(map(shared_files.holds, strange_paths)) else UNTRUSTED

    async def _permit(
        self, tool: Tool, args: Mapping[str, Any], plan: EffectPlan, context: CallContext
    ) -> bool:
        """Return whether a person has allowed the call.

        The decision is recorded before the call runs. Raises `PolicyDenied`, and `ToolError` for
        arguments that do not fit a foreign schema.
        """
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
            # A call that cannot be recorded must not run.
            raise PolicyDenied(f"Not allowed: {exc}") from exc
        return consent.by_person

    async def _record_refusal(
        self, tool: Tool, args: Mapping[str, Any], context: CallContext, reason: str
    ) -> None:
        """Record a refusal; the refusal applies even if it cannot be recorded."""
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


def _clean(result: ToolResult, redactor: Redactor) -> ToolResult:
    return _converted(result, redactor.clean) if redactor else result


def _converted(result: ToolResult, convert: Callable[[str], str]) -> ToolResult:
    """Return the result with all of its texts converted."""
    return replace(
        result,
        for_model=convert(result.for_model),
        for_user=None if result.for_user is None else convert(result.for_user),
        artifacts=tuple(
            replace(artifact, content=convert(artifact.content)) for artifact in result.artifacts
        ),
        ends_with=None if result.ends_with is None else convert(result.ends_with),
    )


def _checked(tool: Tool, result: object) -> ToolResult:
    if not isinstance(result, ToolResult):
        type_name = type(result).__name__
        raise ToolError(
            f"{tool.name} failed: its run() must return a ToolResult, found {type_name}."
        )
    return result
