"""Provider for vendors with OpenAI's chat completions API, over either transport."""

from collections.abc import AsyncIterator

from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.http.json_stream import SseParser
from agent.providers.http.streaming_client import StreamingClient
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.openai.request import OpenAIRequestEncoder
from agent.providers.openai.response import OpenAIResponseBuilder
from agent.providers.tool_calls import next_call_number
from agent.providers.vendors import Dialect


class OpenAICompatibleProvider:
    """A `Provider` for one endpoint; the default `transport` is aiohttp."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        dialect: Dialect | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        deadlines = deadlines or Deadlines()
        transport = transport or AiohttpTransport(endpoint, deadlines)
        self._endpoint = endpoint
        self._exchange = StreamingClient(endpoint, transport, deadlines)
        self._encoder = OpenAIRequestEncoder(dialect or Dialect(), endpoint.server)

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the events of one model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = OpenAIResponseBuilder(
            lambda: next_call_number(request.messages), self._endpoint.server
        )
        return self._exchange.stream(request.model, body, SseParser(), reply)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._exchange.aclose()
