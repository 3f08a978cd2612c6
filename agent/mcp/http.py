"""The streams that lead to an MCP server over HTTP. What it answers is bounded: it must not fill
the memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from agent.mcp.settings import MOST_MESSAGE_BYTES, McpServerSettings

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@asynccontextmanager
async def open_http(
    server: McpServerSettings, on_end: Callable[[], None], auth: Any = None
) -> AsyncIterator["TransportStreams"]:
    """The streams, as the SDK's `Transport` has them. `auth` is what adds tokens to requests.
    Each request is one of its own: there is no end to be told of."""
    assert server.url is not None
    # Compressed, little can be very much.
    headers = {"Accept-Encoding": "identity", **server.headers}
    if server.is_sse:
        async with sse_client(
            server.url, headers=headers, auth=auth, httpx_client_factory=bounded_client
        ) as streams:
            yield streams
        return
    async with (
        bounded_client(headers=headers, auth=auth) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def leads_safely(server_url: str, address: str) -> bool:
    """Whether Kore may go where a server sends it with a login: one that is elsewhere must not lead
    it to this machine, and none in the clear."""
    own, url = urlsplit(server_url), urlsplit(address)
    is_near = own.hostname == url.hostname or own.hostname in _LOOPBACK
    if url.scheme == "https" and (is_near or url.hostname not in _LOOPBACK):
        return True
    return url.scheme == "http" and own.scheme == "http" and is_near


def bounded_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    client = create_mcp_http_client(headers, timeout, auth)
    client.event_hooks = {"response": [_bound]}
    return client


async def _bound(response: httpx2.Response) -> None:
    """Bound a body; of a stream of events the SDK bounds each."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_packed = response.headers.get("content-encoding", "identity") != "identity"
        response.stream = _Bounded(response.stream, 0 if is_packed else MOST_MESSAGE_BYTES)


class _Bounded(httpx2.AsyncByteStream):
    """A stream that fails once it has been longer than `limit_bytes`."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit_bytes: int) -> None:
        self._stream = stream
        self._limit_bytes = limit_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit_bytes:
                raise httpx2.StreamError("It sent more than Kore takes at once.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
