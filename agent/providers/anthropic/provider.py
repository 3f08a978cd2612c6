"""Anthropic's messages API, and other vendors' servers that speak it."""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType

from agent.events import ModelEvent
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
    """A `Provider` for one endpoint.

    Anthropic itself is spoken to in the newest version of its API; others, who follow it at their
    own pace, in the one that all of them know. A header `anthropic-version` of one's own wins.
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
        """One model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = AnthropicResponseBuilder(lambda: next_call_number(request.messages))
        stream = self._exchange.stream(request.model, body, SseParser(), reply)
        return self._unsupported.announced(request, stream)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the provider opens new ones when it is used again."""
        await self._exchange.aclose()


def anthropic_endpoint(
    vendor: str,
    api_base: str,
    api_key: str = "",
    key_variable: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    key_source: str = "",
) -> Endpoint:
    """The endpoint for messages; `headers` are extra ones from the configuration."""
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
