"""What records the spans of a turn; `kore.otel` does it for OpenTelemetry."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.tools.run_context import RunContext, ToolTracing
from agent.types import Result


class TurnTracing(ToolTracing, Protocol):
    """The spans of one turn. Each is open as long as its `with`, and is told how it ended; an
    exception that leaves it is its end, too."""

    def agent(self) -> AbstractContextManager[Callable[[Result, str, str], None]]:
        """The turn; its end is a result, of which provider and model."""

    def chat(
        self, provider: str, request: ModelRequest
    ) -> AbstractContextManager[Callable[[Reply], None]]:
        """A model call."""


class Tracing(Protocol):
    def of(self, run: RunContext[Any]) -> TurnTracing: ...
