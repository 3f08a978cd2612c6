"""Provider interface and model requests."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from agent.events import ModelEvent
from agent.records import frozen
from agent.text.similar_names import folded
from agent.types import JsonSchema, Message

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64


def plain_name(name: str) -> str:
    """Return a tool name that every vendor accepts.

    Characters other than letters, digits, _ and - are replaced; the limit is 64 characters.
    """
    return _NOT_IN_A_NAME.sub("_", name)[:_NAME_LIMIT] or "unnamed"


def is_plain_name(name: str) -> bool:
    return plain_name(name) == name


# Adaptations of a request: earlier thoughts in fields of their own, the other name for the limit of
# reply tokens, tools with a grammar as ordinary functions, and none of a server's own fields.
REPLAYED_THOUGHTS = "replayed thoughts"
RENAMED_LIMIT = "renamed limit"
PLAIN_FUNCTIONS = "plain functions"
NO_UNKNOWN_FIELDS = "no unknown fields"


@frozen
class ToolSpec:
    """Tool as the model sees it.

    `grammar` describes the text of its only argument in the Lark language, for vendors that accept
    free text instead of JSON. `aliases` are other names that models use for the tool, folded.
    """

    name: str
    description: str
    parameters: JsonSchema
    grammar: str | None = None
    aliases: tuple[str, ...] = ()
    # Counted once (`agent.providers.token_estimate`); excluded from comparisons.
    tokens: int | None = field(default=None, compare=False, repr=False, init=False)


def find_tool(tools: Iterable[ToolSpec], name: str) -> ToolSpec | None:
    """Return the tool that a model means by a name, in any spelling, or by an alias."""
    spelled = folded(name)
    return next(
        (tool for tool in tools if folded(tool.name) == spelled or spelled in tool.aliases), None
    )


@frozen
class ModelRequest:
    """Request to a model.

    `messages` contains no system message; `system` is the whole prompt. `messages` must be valid
    (see `history.repair`); `tools` keeps its order within a session, so that each request is a
    byte-identical continuation of the previous one. `adaptations` are changes after refusals: names
    of optional body fields to leave out, `REPLAYED_THOUGHTS` and `RENAMED_LIMIT`. `cache_key`
    identifies the conversation to vendors that use such a key to find its beginning in their
    caches.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    adaptations: frozenset[str] = frozenset()
    cache_key: str | None = None


class Provider(Protocol):
    """Client for a model API.

    `stream` yields deltas as they arrive and exactly one `Reply` as its last item. It raises
    `ProviderError`; a reply that was cut short is an error, never a `Reply`. A provider with
    connections also defines `async def aclose(self)`.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...


class ClosingProvider(Provider, Protocol):
    """Provider that can be closed."""

    async def aclose(self) -> None: ...
