"""Choice between chat completions and the Responses API for each model at one address."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agent.errors import NeedsResponses, NotFound
from agent.events import ModelEvent, Notice
from agent.i18n import t
from agent.providers.base import ModelRequest
from agent.providers.effort import EFFORT
from agent.providers.openai.provider import OpenAICompatibleProvider

if TYPE_CHECKING:
    from agent.providers.openai.responses.provider import OpenAIResponsesProvider


class OpenAIApiChoice:
    """Provider that switches a model from chat completions to the Responses API on demand.

    Every server supports chat completions. A model that accepts tools only through the Responses
    API switches to it after its first refusal. If the server has no Responses API, the model is
    asked without reasoning, because it then accepts tools through chat completions.
    """

    def __init__(
        self,
        chat: OpenAICompatibleProvider,
        open_responses: "Callable[[], OpenAIResponsesProvider]",
    ) -> None:
        self._chat = chat
        self._open_responses = open_responses
        self._responses: OpenAIResponsesProvider | None = None
        self._by_responses: set[str] = set()
        self._without_reasoning: set[str] = set()

    @property
    def name(self) -> str:
        return self._chat.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the events of one model call. Closing the iterator closes the connection."""
        model = request.model
        while True:
            # Providers are async generators; closing one ends its connection at once.
            stream = cast(AsyncGenerator[ModelEvent], self._ask(request))
            # Both refusals come before any output.
            try:
                async with aclosing(stream):
                    async for event in stream:
                        yield event
                return
            except NeedsResponses:
                if model in self._by_responses or model in self._without_reasoning:
                    raise
                self._by_responses.add(model)
            except NotFound as exc:
                if model not in self._by_responses:
                    raise
                self._by_responses.discard(model)
                self._without_reasoning.add(model)
                yield Notice("info", t("retrying without thinking: {exc}", exc=exc))

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        if self._responses is not None and request.model in self._by_responses:
            return self._responses.optional_fields(request)
        return self._chat.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._chat.aclose()
        if self._responses is not None:
            await self._responses.aclose()

    def _ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.model in self._by_responses:
            if self._responses is None:
                self._responses = self._open_responses()
            return self._responses.stream(request)
        if request.model in self._without_reasoning:
            request = replace(request, options={**request.options, EFFORT: "none"})
        return self._chat.stream(request)
