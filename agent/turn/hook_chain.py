"""Hooks of one turn, and of events outside turns."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent.approvals import ApprovalRequest
from agent.errors import PolicyDenied, ToolError
from agent.events import Event, Notice
from agent.providers.base import ModelRequest
from agent.providers.usage import InMemoryMeter
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.tools.run_context import RunContext
from agent.turn.hook_events import HookEventName
from agent.turn.hooks import (
    AskFirst,
    HookContext,
    Hooks,
    HookWords,
    PromptExpansion,
    SeesTools,
    SeesTurns,
)
from agent.turn.request import AgentServices, TurnRequest
from agent.types import Message, ToolCall, ToolResult

log = logging.getLogger(__name__)


class HookChain:
    """Hooks of one turn, run in order before a call and in reverse order after it.

    `context` returns the context for events outside tool calls.
    """

    def __init__(
        self,
        task: TurnRequest,
        agent: AgentServices,
        toolbox: ToolRegistry,
        context: Callable[[], CallContext],
    ) -> None:
        self._hooks = task.hooks
        self._agent, self._meter = agent, task.meter
        self._toolbox = toolbox
        self._context = context
        self._is_subagent = not task.is_prompted
        # Reasons for asking a person, by call id.
        self._consent_reasons: dict[str, str] = {}
        self._run: RunContext[Any] = RunContext.of(task.environment)
        # Reason of a hook that ends the turn.
        self.end_reason: str | None = None

    async def begin(
        self, prompt: str, *, is_new_session: bool, expansions: Sequence[PromptExpansion] = ()
    ) -> HookWords:
        """Return the answers of the hooks to a prompt, before the first reply."""
        words = HookWords()
        if is_new_session:
            for hook in self._hooks:
                text = await hook.session_start(self._run)
                words = words.with_more(HookWords(text or ""))
            words = words.with_more(await self._report("SessionStart", source="startup"))
        for expansion in expansions:
            facts = {
                "expansion_type": expansion.type,
                "command_name": expansion.name,
                "command_args": expansion.arguments,
                "command_source": expansion.source,
                "prompt": expansion.text,
            }
            words = words.with_more(await self._report("UserPromptExpansion", **facts))
        if words.refusal is not None:
            return words
        for hook in self._hooks:
            try:
                text = await hook.before_turn(self._run, prompt)
            except PolicyDenied as exc:
                return words.with_more(HookWords(refusal=str(exc)))
            words = words.with_more(HookWords(text or ""))
            if isinstance(hook, SeesTurns):
                answer = await hook.on_event(
                    "UserPromptSubmit", self._hook_context(self._context()), {"prompt": prompt}
                )
                words = words.with_more(answer)
            if words.refusal is not None:
                return words
        return words

    async def before_end(self, reply: Message, *, is_again: bool) -> HookWords:
        """Return the answers of the hooks to a reply that would end the turn."""
        words = HookWords()
        for hook in self._hooks:
            words = words.with_more(HookWords(await hook.before_end(self._run, reply) or ""))
        facts = {"stop_hook_active": is_again, "last_assistant_message": reply.text}
        event: HookEventName = "SubagentStop" if self._is_subagent else "Stop"
        return words.with_more(await self._report(event, **facts))

    async def may_compact(self) -> bool:
        """Return whether the hooks let older messages be summarized."""
        words = await self._report("PreCompact", trigger="auto", custom_instructions="")
        return words.refusal is None

    async def notify(self, context: CallContext, question: ApprovalRequest) -> None:
        for hook in self._hooks:
            await hook.on_question(self._run, question)
        facts = {
            "message": f"{question.tool}: {question.reason}",
            "notification_type": "permission_prompt",
        }
        await report(self._hooks, "Notification", self._hook_context(context), facts)

    def consent_reason(self, call_id: str) -> str | None:
        return self._consent_reasons.get(call_id)

    def _hook_context(self, call: CallContext) -> HookContext:
        return HookContext(
            call,
            self._agent.models,
            self._meter,
            self._agent.background_hooks,
            self._end_turn,
            self._is_subagent,
        )

    def _end_turn(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason

    async def _report(self, event: HookEventName, **facts: Any) -> HookWords:
        return await report(self._hooks, event, self._hook_context(self._context()), facts)

    async def before_model(self, request: ModelRequest) -> ModelRequest | Message:
        for hook in self._hooks:
            change = await hook.before_model(self._run, request)
            if isinstance(change, Message):
                return change
            request = change or request
        return request

    async def after_model(self, request: ModelRequest, reply: Message) -> Message:
        for hook in reversed(self._hooks):
            reply = await hook.after_model(self._run, request, reply) or reply
        return reply

    async def before_tool(self, context: CallContext) -> ToolResult | None:
        try:
            for hook in self._hooks:
                if isinstance(hook, SeesTools):
                    tool = self._toolbox.find(context.call.name)
                    # An unknown tool needs no hook: the model gets an error anyway.
                    hook_context = self._hook_context(context)
                    result = await hook.before_call(hook_context, tool) if tool else None
                else:
                    result = await hook.before_tool(self._run, context.call)
                if isinstance(result, AskFirst):
                    self._consent_reasons.setdefault(context.call.id, result.reason)
                elif result is not None:
                    return result
        except (PolicyDenied, ToolError) as exc:
            return ToolResult(str(exc), is_error=True)
        return None

    async def after_tool(
        self, context: CallContext, result: ToolResult, *, has_begun: bool
    ) -> ToolResult:
        try:
            for hook in reversed(self._hooks):
                if isinstance(hook, SeesTools):
                    if has_begun and (tool := self._toolbox.find(context.call.name)) is not None:
                        result = await hook.after_call(self._hook_context(context), tool, result)
                else:
                    result = await hook.after_tool(self._run, context.call, result) or result
        except (PolicyDenied, ToolError) as exc:
            return ToolResult(str(exc), is_error=True)
        return result


async def report(
    hooks: Sequence[Hooks[Any]],
    event: HookEventName,
    context: HookContext,
    facts: Mapping[str, Any],
) -> HookWords:
    """Return the combined answers of the hooks to an event; none runs after a refusal."""
    words = HookWords()
    for hook in hooks:
        if isinstance(hook, SeesTurns):
            words = words.with_more(await hook.on_event(event, context, facts))
            if words.refusal is not None:
                break
    return words


async def log_notice(event: Event) -> None:
    """Log a notice of hooks that run outside a turn."""
    if isinstance(event, Notice):
        log.warning("%s", event.text)


async def report_outside_turn(
    agent: AgentServices,
    event: HookEventName,
    environment: ToolEnvironment,
    facts: Mapping[str, Any],
    *,
    tell: Callable[[Event], Awaitable[None]] = log_notice,
) -> HookWords:
    """Return the answers of the agent's hooks to an event outside the turns of a conversation.

    `tell` gets the notices of the hooks.
    """
    if not agent.hooks:
        return HookWords()
    call = CallContext(
        ToolCall("", "hook", {}, "{}"),
        environment,
        lambda text, stream: None,
        redactor=agent.redactor,
        tell=tell,
    )
    context = HookContext(
        call, agent.models, InMemoryMeter(), agent.background_hooks, end_turn=lambda reason: None
    )
    return await report(agent.hooks, event, context, facts)
