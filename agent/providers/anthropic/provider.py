"""Provider for Anthropic's messages API, also on servers of other vendors."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from types import MappingProxyType

from agent.events import ModelEvent, Reply
from agent.providers.anthropic.request import OLD_VERSION, VERSION, AnthropicRequestEncoder
from agent.providers.anthropic.response import AnthropicResponseBuilder
from agent.providers.base import ModelRequest
from agent.providers.http.json_stream import SseParser
from agent.providers.http.streaming_client import StreamingClient
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.model_settings import UnsupportedSettings
from agent.providers.tool_calls import next_call_number

_HOST = "https://api.anthropic.com/"
_VERSION_HEADER = "anthropic-version"


class AnthropicProvider:
    """`Provider` for one endpoint.

    Requests to Anthropic use the newest API version; requests to other vendors use a version that
    all of them support. A configured header `anthropic-version` overrides both.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        deadlines: Deadlines | None = None,
        reply_tokens: int | None = None,
    ) -> None:
        deadlines = deadlines or Deadlines()
        self._endpoint = endpoint
        self._exchange = StreamingClient(
            endpoint, transport or AiohttpTransport(endpoint, deadlines), deadlines
        )
        self._encoder = AnthropicRequestEncoder(
            endpoint.headers.get(_VERSION_HEADER, OLD_VERSION), reply_tokens
        )
        self._unsupported = UnsupportedSettings(self._encoder.unsupported)

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the events of one model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = AnthropicResponseBuilder(lambda: next_call_number(request.messages))
        stream = self._exchange.stream(request.model, body, SseParser(), reply)
        return self._unsupported.announced(request, self._timed(request, stream))

    async def _timed(
        self, request: ModelRequest, stream: AsyncGenerator[ModelEvent]
    ) -> AsyncGenerator[ModelEvent]:
        """Record the request for the choice of a cache lifetime."""
        sent_at = time.time()
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Reply) and event.usage is not None:
                    tokens = event.usage.input
                    self._encoder.lifetimes.note(request.cache_key, tokens, sent_at)
                yield event

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._exchange.aclose()


def anthropic_endpoint(
    vendor: str,
    api_base: str,
    api_key: str = "",
    key_variable: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    key_source: str = "",
) -> Endpoint:
    """Return the endpoint for messages; `headers` are extra headers from the configuration."""
    own = {name.lower(): value for name, value in headers.items()}
    version = VERSION if f"{api_base}/".startswith(_HOST) else OLD_VERSION
    return Endpoint(
        vendor,
        api_base,
        api_key,
        key_variable,
        "/messages",
        "x-api-key",
        {_VERSION_HEADER: version, **own},
        key_source,
    )
