"""Interfaces for tracing turns; `kore.otel` implements them for OpenTelemetry."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.tools.run_context import RunContext, ToolTracing
from agent.types import Result


class TurnTracing(ToolTracing, Protocol):
    """Spans of one turn.

    A span lasts as long as its `with` block; pass its outcome to the yielded function. An exception
    that leaves the block also ends the span.
    """

    def agent(self) -> AbstractContextManager[Callable[[Result, str, str], None]]:
        """Open the span of the turn; its outcome is the result with provider and model."""

    def chat(
        self, provider: str, request: ModelRequest
    ) -> AbstractContextManager[Callable[[Reply], None]]:
        """Open the span of a model call."""


class Tracing(Protocol):
    def of(self, run: RunContext[Any]) -> TurnTracing: ...
