"""Handoffs of a conversation to another agent by a tool call."""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from agent.context.history_validation import is_valid
from agent.errors import ConfigError, ToolError
from agent.i18n import t
from agent.prompts import render_prompt
from agent.providers.base import plain_name
from agent.tools.base import CallContext
from agent.tools.run_context import RunContext
from agent.types import Effect, JsonSchema, Message, Taint, ToolResult

InputT = TypeVar("InputT")
# Part of the conversation that the other agent sees; all of it is stored.
HistoryFilter = Callable[[Sequence[Message]], Sequence[Message]]


class HandoffTarget(Protocol):
    """Agent that a conversation can be handed over to."""

    @property
    def name(self) -> str: ...

    @property
    def handoff_description(self) -> str: ...


class Handoff(Generic[InputT]):
    """Possible handoff to `agent`, and its description.

    With `input_type` (a dataclass or a pydantic model), the agent that hands over states its reason
    in that shape, and `on_handoff` is called with it; without `input_type` it is called with None.
    `input_filter` selects the messages that the other agent sees.
    """

    def __init__(
        self,
        agent: HandoffTarget,
        *,
        description: str | None = None,
        input_type: type[InputT] | None = None,
        on_handoff: Callable[[RunContext[Any], InputT], Awaitable[None] | None] | None = None,
        input_filter: HistoryFilter | None = None,
    ) -> None:
        self.agent = agent
        self.description = description or agent.handoff_description
        self.input_type = input_type
        self.on_handoff = on_handoff
        self.input_filter = input_filter

    def visible(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that the other agent sees.

        Raises `ConfigError` if `input_filter` returns an invalid conversation.
        """
        if self.input_filter is None:
            return list(messages)
        filtered = list(self.input_filter(messages))
        if not filtered or not is_valid(filtered) or filtered[-1].role == "assistant":
            raise ConfigError(
                t(
                    "the input_filter of the handoff to {agent} removed every message",
                    agent=self.agent.name,
                )
            )
        return filtered


class HandoffTool(Generic[InputT]):
    """Tool with which a model hands over."""

    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = frozenset()

    def __init__(self, handoff: Handoff[InputT]) -> None:
        self.handoff = handoff
        self.asks = False
        agent = handoff.agent
        self.name = plain_name(f"transfer_to_{agent.name.lower()}")
        self.description = render_prompt(
            "handoff", agent=agent.name, description=handoff.description
        ).strip()

    @cached_property
    def _adapter(self) -> Any:
        from pydantic import TypeAdapter

        input_type: Any = self.handoff.input_type
        return TypeAdapter(input_type)

    @cached_property
    def parameters(self) -> JsonSchema:
        """Schema of `input_type`. Raises `TypeError` unless it is an object."""
        if self.handoff.input_type is None:
            return {"type": "object", "properties": {}}
        from agent.tools.function_schema import plain_schema

        schema = plain_schema(self._adapter.json_schema())
        if schema.get("type") != "object":
            raise TypeError(f"{self.name}: input_type must be an object, such as a dataclass")
        return schema

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        value = None
        if self.handoff.input_type is not None:
            from pydantic import ValidationError

            try:
                value = self._adapter.validate_json(json.dumps(dict(args)))
            except ValidationError as exc:
                first = exc.errors(include_input=False, include_url=False)[0]
                where = ".".join(map(str, first["loc"]))
                raise ToolError(f"{self.name}: {where}: {first['msg']}.") from exc
        if self.handoff.on_handoff is not None:
            context: RunContext[Any] = RunContext.of(call.environment)
            answer: Any = self.handoff.on_handoff(context, value)  # type: ignore[arg-type]  # None without input_type
            if inspect.isawaitable(answer):
                await answer
        name = self.handoff.agent.name
        return ToolResult(render_prompt("handed_over", agent=name), handoff=name)


def remove_all_tools(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation without tool calls and results, for use as an `input_filter`."""
    words = [message for message in messages if message.role != "tool" and not message.tool_calls]
    while words and words[-1].role == "assistant":
        del words[-1]
    return words
