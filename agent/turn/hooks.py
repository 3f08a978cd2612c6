"""Hooks: application code that runs around turns, model calls and tool calls."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, runtime_checkable

from agent.approvals import ApprovalRequest
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.records import frozen
from agent.tools.base import CallContext, Tool
from agent.tools.run_context import DepsT, RunContext
from agent.types import Context, Message, Taint, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.providers.pool import ModelPool
    from agent.providers.usage import UsageMeter
    from agent.turn.background_hooks import BackgroundHooks
    from agent.turn.hook_events import HookEventName


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


@frozen
class HookContext:
    """Call, or event outside calls, and the services for its hooks.

    `call` describes both; its own call is empty outside calls. `end_turn` ends the turn with a
    reason once the results of its calls are stored.
    """

    call: CallContext
    models: "ModelPool"
    meter: "UsageMeter"
    background: "BackgroundHooks"
    end_turn: Callable[[str], None]
    is_subagent: bool = False


@frozen
class PromptExpansion:
    """Command in a person's message that is replaced by a prompt: a skill's, or an MCP server's."""

    type: Literal["slash_command", "mcp_prompt"]
    name: str
    arguments: str
    source: str
    text: str


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
        self, context: HookContext, tool: Tool
    ) -> ToolResult | AskFirst | None: ...
    async def after_call(
        self, context: HookContext, tool: Tool, result: ToolResult
    ) -> ToolResult: ...


@runtime_checkable
class SeesTurns(Protocol):
    """Optional capability of hooks: receive events outside calls, with their input."""

    async def on_event(
        self, event: "HookEventName", context: HookContext, facts: Mapping[str, Any]
    ) -> HookWords: ...
