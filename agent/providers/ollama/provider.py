"""Provider for Ollama's own API, with its window size, thinking and errors."""

from collections.abc import AsyncIterator

from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.http.json_stream import NdjsonParser
from agent.providers.http.streaming_client import StreamingClient
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.model_settings import UnsupportedSettings
from agent.providers.ollama.request import UNSUPPORTED, OllamaRequestEncoder
from agent.providers.ollama.response import OllamaResponseBuilder
from agent.providers.tool_calls import next_call_number

PATH = "/api/chat"


class OllamaProvider:
    """A `Provider` for one endpoint, whose `path` is `/api/chat`."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        context_tokens: int | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        deadlines = deadlines or Deadlines()
        self._endpoint = endpoint
        self._exchange = StreamingClient(
            endpoint, transport or AiohttpTransport(endpoint, deadlines), deadlines
        )
        self._encoder = OllamaRequestEncoder(context_tokens)
        self._unsupported = UnsupportedSettings(UNSUPPORTED)

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the events of one model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = OllamaResponseBuilder(lambda: next_call_number(request.messages))
        stream = self._exchange.stream(request.model, body, NdjsonParser(), reply)
        return self._unsupported.announced(request, stream)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._exchange.aclose()
