"""One tool call from the model's words to a result: check, plan, decide, ask, run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agent.errors import KoreError, PolicyDenied, ToolError
from agent.prompts import load
from agent.security.policy import ApprovalRequest, Approver, Policy, ToolRequest
from agent.tools.base import CallContext, Plan, Plans, Tool
from agent.tools.toolbox import Toolbox
from agent.types import Effect, ToolCall, ToolResult

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Permissions:
    """Who decides: the policy first, then the person when the policy says "ask"."""

    policy: Policy
    approver: Approver | None = None


class Runner:
    """Runs calls. Whatever goes wrong inside a tool becomes a result that the model reads."""

    def __init__(self, toolbox: Toolbox, permissions: Permissions, *, timeout_s: float) -> None:
        self._toolbox = toolbox
        self._permissions = permissions
        self._timeout_s = timeout_s

    def effect(self, call: ToolCall) -> Effect:
        """The effect that the call's tool declares; an unknown tool has none."""
        tool = self._toolbox.find(call.name)
        return tool.effect if tool else "read"

    async def run(
        self, context: CallContext, on_start: Callable[[], Awaitable[None]]
    ) -> ToolResult:
        """The call's result. `on_start` is awaited between the permission and the first effect."""
        try:
            tool, args = self._check(context.call)
            plan = Plan()
            if isinstance(tool, Plans):
                plan = await self._within(tool, tool.plan(args, context))
            await self._permit(tool, args, plan, context)
            await on_start()
            return _checked(tool, await self._within(tool, tool.run(args, context)))
        except (ToolError, PolicyDenied) as exc:
            return ToolResult(str(exc), is_error=True)

    async def _within(self, tool: Tool, work: Coroutine[Any, Any, T]) -> T:
        """What the tool's own code comes to. Whatever goes wrong in it raises `ToolError`."""
        try:
            async with asyncio.timeout(self._timeout_s) as deadline:
                return await work
        except (ToolError, PolicyDenied):
            raise
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is None or task.cancelling():
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
        tool = self._toolbox.get(call.name)
        if call.arguments is None:
            raise ToolError(f"The arguments of {tool.name} are not a JSON object: {call.raw[:200]}")
        return tool, self._toolbox.validate(tool, call.arguments)

    async def _permit(
        self, tool: Tool, args: Mapping[str, Any], plan: Plan, context: CallContext
    ) -> None:
        request = ToolRequest(
            tool.name,
            tool.effect,
            args,
            context.workspace,
            plan.changes,
            plan.creates,
            plan.command,
        )
        decision = self._permissions.policy.decide(request)
        if decision.verdict == "allow":
            return
        if decision.verdict == "deny":
            raise PolicyDenied(f"Not allowed: {decision.reason}")
        approver = self._permissions.approver
        if approver is None:
            raise PolicyDenied(load("nobody_to_ask"))
        question = ApprovalRequest(tool.name, args, decision.reason, plan.command, plan.diff)
        try:
            answer = await approver.ask(question)
        except KoreError as exc:
            raise PolicyDenied(f"Not allowed: {exc}") from exc
        if answer == "deny":
            raise PolicyDenied(load("person_said_no"))


def _checked(tool: Tool, result: object) -> ToolResult:
    if not isinstance(result, ToolResult):
        found = type(result).__name__
        raise ToolError(f"{tool.name} failed: its run() must return a ToolResult, found {found}.")
    return result
