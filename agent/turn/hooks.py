"""Hooks: a program's own code before and after each model call and each tool call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, runtime_checkable

from agent.errors import PolicyDenied, ToolError
from agent.providers.base import ModelRequest
from agent.tools.base import CallContext, Tool
from agent.tools.run_context import DepsT, RunContext
from agent.types import Message, ToolCall, ToolResult

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


@runtime_checkable
class SeesTools(Protocol):
    """Optional ability of hooks: to be told of the call's environment, and of the tool that is
    meant, whatever the model calls it."""

    async def before_call(self, context: CallContext, tool: Tool) -> ToolResult | None: ...
    async def after_call(
        self, context: CallContext, tool: Tool, result: ToolResult
    ) -> ToolResult: ...


class HookChain:
    """The hooks of one turn: in their order before a call, in reverse after it."""

    def __init__(
        self,
        hooks: Sequence[Hooks[Any]],
        environment: "ToolEnvironment",
        toolbox: "ToolRegistry",
    ) -> None:
        self._hooks = hooks
        self._toolbox = toolbox
        # Calls, by their id, whose tool did not run.
        self._replaced: set[str] = set()
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
                if isinstance(hook, SeesTools):
                    tool = self._toolbox.find(context.call.name)
                    # Of a tool that there is not, the model reads so without a hook.
                    result = await hook.before_call(context, tool) if tool else None
                else:
                    result = await hook.before_tool(self._run, context.call)
                if result is not None:
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
