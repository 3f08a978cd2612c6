"""Hooks: a program's own code before and after each model call and each tool call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

from agent.errors import PolicyDenied, ToolError
from agent.providers.base import ModelRequest
from agent.tools.base import CallContext
from agent.tools.run_context import DepsT, RunContext
from agent.types import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.tools.base import ToolEnvironment


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


class HookChain:
    """The hooks of one turn: in their order before a call, in reverse after it."""

    def __init__(self, hooks: Sequence[Hooks[Any]], environment: "ToolEnvironment") -> None:
        self._hooks = hooks
        self._run: RunContext[Any] = RunContext.of(environment)

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
                if (result := await hook.before_tool(self._run, context.call)) is not None:
                    return result
        except (PolicyDenied, ToolError) as exc:
            return ToolResult(str(exc), is_error=True)
        return None

    async def after_tool(self, context: CallContext, result: ToolResult) -> ToolResult:
        try:
            for hook in reversed(self._hooks):
                result = await hook.after_tool(self._run, context.call, result) or result
        except (PolicyDenied, ToolError) as exc:
            return ToolResult(str(exc), is_error=True)
        return result
