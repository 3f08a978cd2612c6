"""Provider for vendors with OpenAI's Responses API, over either transport."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing

from agent.errors import NoEncryptedReasoning
from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.http.json_stream import SseParser
from agent.providers.http.streaming_client import StreamingClient
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.model_settings import UnsupportedSettings
from agent.providers.openai.responses.request import UNSUPPORTED, ResponsesRequestEncoder
from agent.providers.openai.responses.response import ResponsesResponseBuilder
from agent.providers.tool_calls import next_call_number
from agent.types import ReasoningEffort

PATH = "/responses"


class OpenAIResponsesProvider:
    """A `Provider` for one endpoint, whose path is `PATH`.

    `efforts` are the supported levels of reasoning; `plain_models` do not reason, and are not asked
    for encrypted reasoning.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        deadlines: Deadlines | None = None,
        efforts: Sequence[ReasoningEffort] = (),
        plain_models: Iterable[str] = (),
    ) -> None:
        deadlines = deadlines or Deadlines()
        self._endpoint = endpoint
        self._client = StreamingClient(
            endpoint, transport or AiohttpTransport(endpoint, deadlines), deadlines
        )
        self._encoder = ResponsesRequestEncoder(efforts, plain_models)
        self._unsupported = UnsupportedSettings(UNSUPPORTED)

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the events of one model call. Closing the iterator closes the connection."""
        return self._unsupported.announced(request, self._stream(request))

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        while True:
            try:
                async with aclosing(self._ask(request)) as stream:
                    async for event in stream:
                        yield event
                return
            except NoEncryptedReasoning:
                # The server sends it before any output.
                if not self._encoder.leave_out_encrypted(request.model):
                    raise

    def _ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        body = self._encoder.body(request)
        reply = ResponsesResponseBuilder(lambda: next_call_number(request.messages))
        return self._client.stream(request.model, body, SseParser(), reply)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._client.aclose()
