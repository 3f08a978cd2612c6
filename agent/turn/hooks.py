"""Hooks: a program's own code at the beginning and the end of turns, and before and after each
model call and each tool call."""

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
    """Override what you need. None leaves things as they are; anything else takes their place.

    `PolicyDenied` refuses: a tool's call becomes a failure that the model reads, a model's call
    ends the turn. Any other exception is a bug of the program, ends the turn and is raised.
    """

    async def before_model(
        self, run: RunContext[DepsT], request: ModelRequest
    ) -> ModelRequest | Message | None:
        """Another request, or the reply itself: then the model is not asked."""
        return None

    async def after_model(
        self, run: RunContext[DepsT], request: ModelRequest, reply: Message
    ) -> Message | None:
        """Another reply. What was streamed of the model's is void then."""
        return None

    async def before_tool(self, run: RunContext[DepsT], call: ToolCall) -> ToolResult | None:
        """The result itself: then the tool does not run, and no consent is asked."""
        return None

    async def after_tool(
        self, run: RunContext[DepsT], call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Another result."""
        return None

    async def session_start(self, run: RunContext[DepsT]) -> str | None:
        """Words for the model in front of a new conversation's first answer."""
        return None

    async def before_turn(self, run: RunContext[DepsT], prompt: str) -> str | None:
        """Words for the model with what the person says. `PolicyDenied` keeps the person's words
        from the model: the turn ends with its text."""
        return None

    async def before_end(self, run: RunContext[DepsT], reply: Message) -> str | None:
        """Words for the model, which then goes on; a few times in a turn."""
        return None

    async def on_question(self, run: RunContext[DepsT], question: ApprovalRequest) -> None:
        """A person is being asked."""


TurnEvent = Literal["SessionStart", "UserPromptSubmit", "Stop", "Notification"]


@frozen
class HookWords:
    """What hooks say at a moment of a turn: `text` goes to the model. `refusal` ends what was about
    to happen, `taint` is that of the words."""

    text: str = ""
    refusal: str | None = None
    taint: frozenset[Taint] = frozenset()

    def with_more(self, other: "HookWords") -> "HookWords":
        text = "\n\n".join(filter(None, [self.text, other.text]))
        refusal = other.refusal if self.refusal is None else self.refusal
        return HookWords(text, refusal, self.taint | other.taint)


def withdrawn_prompt() -> Message:
    """What stands in place of a message that hooks kept from the model."""
    return Message("user", (Context(load_prompt("hook_withdrew")),))


@frozen
class AskFirst:
    """A hook wants a person asked about a call."""

    reason: str


@runtime_checkable
class SeesTools(Protocol):
    """Optional ability of hooks: to be told of the call's environment, and of the tool that is
    meant, whatever the model calls it."""

    async def before_call(
        self, context: CallContext, tool: Tool
    ) -> ToolResult | AskFirst | None: ...
    async def after_call(
        self, context: CallContext, tool: Tool, result: ToolResult
    ) -> ToolResult: ...


@runtime_checkable
class SeesTurns(Protocol):
    """Optional ability of hooks: to be told of a turn's moments as of calls."""

    async def on_turn(
        self, event: TurnEvent, context: CallContext, facts: Mapping[str, Any]
    ) -> HookWords: ...


class HookChain:
    """The hooks of one turn: in their order before a call, in reverse after it. `context` is that
    of a call which no tool makes."""

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
        # Why a person is to be asked about calls, by their id.
        self._consent_reasons: dict[str, str] = {}
        # Calls, by their id, whose tool did not run.
        self._replaced: set[str] = set()
        self._run: RunContext[Any] = RunContext.of(environment)

    async def begin(self, prompt: str, *, is_new_session: bool) -> HookWords:
        """What they say in front of the first answer to what a person said."""
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
        """What they say to a reply that would be the last."""
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
                    # Of a tool that there is not, the model reads so without a hook.
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
