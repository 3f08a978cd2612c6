"""Hooks: application code that runs around turns, model calls and tool calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, runtime_checkable

from agent.approvals import ApprovalRequest
from agent.errors import PolicyDenied, ToolError
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.records import frozen
from agent.tools.base import CallContext, Tool
from agent.tools.run_context import DepsT, RunContext
from agent.types import Context, Message, Taint, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.tools.base import ToolEnvironment
    from agent.tools.registry import ToolRegistry


class Hooks(Generic[DepsT]):
    """Base class for hooks; override the methods you need.

    Returning None changes nothing; any other value replaces the original. `PolicyDenied` from a
    tool hook turns the call into a failure that the model reads; from a model hook it ends the
    turn. Any other exception is a bug in the application: it ends the turn and propagates.
    """

    async def before_model(
        self, run: RunContext[DepsT], request: ModelRequest
    ) -> ModelRequest | Message | None:
        """Return a replacement request, or a reply that is used without a model call."""
        return None

    async def after_model(
        self, run: RunContext[DepsT], request: ModelRequest, reply: Message
    ) -> Message | None:
        """Return a replacement reply. It voids the streamed text of the model."""
        return None

    async def before_tool(self, run: RunContext[DepsT], call: ToolCall) -> ToolResult | None:
        """Return a result to use instead of running the tool and without asking for consent."""
        return None

    async def after_tool(
        self, run: RunContext[DepsT], call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Return a replacement result."""
        return None

    async def session_start(self, run: RunContext[DepsT]) -> str | None:
        """Return text for the model before the first answer of a new conversation."""
        return None

    async def before_turn(self, run: RunContext[DepsT], prompt: str) -> str | None:
        """Return text for the model to accompany the person's prompt.

        `PolicyDenied` withholds the prompt from the model and ends the turn with its text.
        """
        return None

    async def before_end(self, run: RunContext[DepsT], reply: Message) -> str | None:
        """Return text that makes the model continue; limited to a few times per turn."""
        return None

    async def on_question(self, run: RunContext[DepsT], question: ApprovalRequest) -> None:
        """Handle a question that is sent to a person."""


TurnEvent = Literal["SessionStart", "UserPromptSubmit", "Stop", "Notification"]


@frozen
class HookWords:
    """Combined answer of hooks to a turn event.

    `text` goes to the model, `refusal` prevents the action, and `taint` covers the text.
    """

    text: str = ""
    refusal: str | None = None
    taint: frozenset[Taint] = frozenset()

    def with_more(self, other: "HookWords") -> "HookWords":
        text = "\n\n".join(filter(None, [self.text, other.text]))
        refusal = other.refusal if self.refusal is None else self.refusal
        return HookWords(text, refusal, self.taint | other.taint)


def withdrawn_prompt() -> Message:
    """Return the replacement for a message that hooks withheld from the model."""
    return Message("user", (Context(load_prompt("hook_withdrew")),))


@frozen
class AskFirst:
    """A hook's request to ask a person about a call."""

    reason: str


@runtime_checkable
class SeesTools(Protocol):
    """Optional capability of hooks: receive the call context and the resolved tool.

    The tool is the same for every alias that the model uses.
    """

    async def before_call(
        self, context: CallContext, tool: Tool
    ) -> ToolResult | AskFirst | None: ...
    async def after_call(
        self, context: CallContext, tool: Tool, result: ToolResult
    ) -> ToolResult: ...


@runtime_checkable
class SeesTurns(Protocol):
    """Optional capability of hooks: receive turn events with a call context."""

    async def on_turn(
        self, event: TurnEvent, context: CallContext, facts: Mapping[str, Any]
    ) -> HookWords: ...


class HookChain:
    """Hooks of one turn, run in order before a call and in reverse order after it.

    `context` returns the context for events outside tool calls.
    """

    def __init__(
        self,
        hooks: Sequence[Hooks[Any]],
        environment: "ToolEnvironment",
        toolbox: "ToolRegistry",
        context: Callable[[], CallContext],
    ) -> None:
        self._hooks = hooks
        self._toolbox = toolbox
        self._context = context
        # Reasons for asking a person, by call id.
        self._consent_reasons: dict[str, str] = {}
        # Ids of calls whose tool did not run.
        self._replaced: set[str] = set()
        self._run: RunContext[Any] = RunContext.of(environment)

    async def begin(self, prompt: str, *, is_new_session: bool) -> HookWords:
        """Return the answers of the hooks to a prompt, before the first reply."""
        words = HookWords()
        if is_new_session:
            for hook in self._hooks:
                text = await hook.session_start(self._run)
                words = words.with_more(HookWords(text or ""))
                words = words.with_more(await self._tell(hook, "SessionStart", source="startup"))
        for hook in self._hooks:
            try:
                text = await hook.before_turn(self._run, prompt)
            except PolicyDenied as exc:
                return words.with_more(HookWords(refusal=str(exc)))
            words = words.with_more(HookWords(text or ""))
            words = words.with_more(await self._tell(hook, "UserPromptSubmit", prompt=prompt))
            if words.refusal is not None:
                return words
        return words

    async def before_end(self, reply: Message, *, is_again: bool) -> HookWords:
        """Return the answers of the hooks to a reply that would end the turn."""
        words = HookWords()
        for hook in self._hooks:
            words = words.with_more(HookWords(await hook.before_end(self._run, reply) or ""))
            facts = {"stop_hook_active": is_again, "last_assistant_message": reply.text}
            words = words.with_more(await self._tell(hook, "Stop", **facts))
        return words

    async def notify(self, context: CallContext, question: ApprovalRequest) -> None:
        for hook in self._hooks:
            await hook.on_question(self._run, question)
            if isinstance(hook, SeesTurns):
                facts = {
                    "message": f"{question.tool}: {question.reason}",
                    "notification_type": "permission_prompt",
                }
                await hook.on_turn("Notification", context, facts)

    def consent_reason(self, call_id: str) -> str | None:
        return self._consent_reasons.get(call_id)

    async def _tell(self, hook: Hooks[Any], event: TurnEvent, **facts: Any) -> HookWords:
        if not isinstance(hook, SeesTurns):
            return HookWords()
        return await hook.on_turn(event, self._context(), facts)

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
                    result = await hook.before_call(context, tool) if tool else None
                else:
                    result = await hook.before_tool(self._run, context.call)
                if isinstance(result, AskFirst):
                    self._consent_reasons.setdefault(context.call.id, result.reason)
                elif result is not None:
                    self._replaced.add(context.call.id)
                    return result
        except (PolicyDenied, ToolError) as exc:
            self._replaced.add(context.call.id)
            return ToolResult(str(exc), is_error=True)
        return None

    async def after_tool(self, context: CallContext, result: ToolResult) -> ToolResult:
        has_run = context.call.id not in self._replaced
        self._replaced.discard(context.call.id)
        try:
            for hook in reversed(self._hooks):
                if isinstance(hook, SeesTools):
                    if has_run and (tool := self._toolbox.find(context.call.name)) is not None:
                        result = await hook.after_call(context, tool, result)
                else:
                    result = await hook.after_tool(self._run, context.call, result) or result
        except (PolicyDenied, ToolError) as exc:
            return ToolResult(str(exc), is_error=True)
        return result
