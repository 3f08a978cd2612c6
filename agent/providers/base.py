"""The port to a model, and what is asked of it."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from agent.events import ModelEvent
from agent.records import frozen
from agent.types import JsonSchema, Message

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LIMIT = 64


def plain_name(name: str) -> str:
    """A tool's name as every vendor takes it: letters, digits, _ and -, at most 64 of them."""
    return _NOT_IN_A_NAME.sub("_", name)[:_NAME_LIMIT] or "unnamed"


def is_plain_name(name: str) -> bool:
    return plain_name(name) == name


# Earlier thoughts are given back in fields of their own, and the limit of a reply's tokens has its
# other name.
REPLAYED_THOUGHTS = "replayed thoughts"
RENAMED_LIMIT = "renamed limit"


@frozen
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    parameters: JsonSchema
    # Counted once (`agent.context.token_budget`); no part of its value.
    tokens: int | None = field(default=None, compare=False, repr=False, init=False)


@frozen
class ModelRequest:
    """One model call. `messages` holds no system message: `system` is the whole prompt.

    `messages` must be valid (see `history.repair`); `tools` keeps its order within a session, so
    that one request is a byte-identical continuation of the one before. `adaptations` holds
    what the server refused: names of optional fields of the body, which are left out, and the two
    below.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    adaptations: frozenset[str] = frozenset()


class Provider(Protocol):
    """A way to reach a model.

    `stream` yields deltas as they arrive and, as its last item, exactly one `Reply`. It raises
    `ProviderError`; a reply that was cut short is an error, never a `Reply`. One that holds
    connections also has `async def aclose(self)`.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...


class ClosingProvider(Provider, Protocol):
    """A provider as Kore holds it."""

    async def aclose(self) -> None: ...
