"""Streams to an MCP server over HTTP, with bounded responses."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agent.mcp.settings import MAX_MESSAGE_BYTES, McpServerSettings
from agent.proxies.outbound import trust_store
from agent.tools.shell.confined_server import OutputBudget, TooMuchOutput

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


# Same as in the SDK: a server may keep a response open.
_TIMEOUT_S = 30.0
_READ_TIMEOUT_S = 300.0
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://*.localhost", "all://[::1]")
_SESSION_HEADER = "mcp-session-id"
# The protocol requires 404 for an unknown session; many servers answer with another status.
_REFUSALS = (400, 404, 410)


@asynccontextmanager
async def open_http(
    server: McpServerSettings, on_refusal: Callable[[], None], auth: Any = None
) -> AsyncIterator["TransportStreams"]:
    """Open the streams in the form of the SDK's `Transport`.

    `auth` adds tokens to requests. `on_refusal` is called when the server refuses a message of a
    session: it may have lost the session, as after a restart.
    """
    assert server.url is not None
    # Refuse compression: a small response could expand to a huge one.
    headers = {"Accept-Encoding": "identity", **server.headers}
    if server.is_sse:
        async with sse_client(
            server.url, headers=headers, auth=auth, httpx_client_factory=bounded_client
        ) as streams:
            yield streams
        return
    client = bounded_client(headers=headers, auth=auth)

    async def watch(response: httpx2.Response) -> None:
        request = response.request
        is_of_session = request.method == "POST" and _SESSION_HEADER in request.headers
        if is_of_session and response.status_code in _REFUSALS:
            on_refusal()

    client.event_hooks["response"].append(watch)
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def bounded_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Return a client whose responses are limited by `OutputBudget`."""
    client = httpx2.AsyncClient(
        headers=headers,
        timeout=timeout or httpx2.Timeout(_TIMEOUT_S, read=_READ_TIMEOUT_S),
        auth=auth,
        verify=trust_store(),
        # The library uses the proxies of the environment even for loopback.
        mounts=dict.fromkeys(_LOOPBACK),
    )
    budget = OutputBudget()

    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_compressed = response.headers.get("content-encoding", "identity") != "identity"
        is_endless = response.headers.get("content-type", "").startswith("text/event-stream")
        limit_bytes = 0 if is_compressed else None if is_endless else MAX_MESSAGE_BYTES
        response.stream = _BoundedStream(response.stream, budget, limit_bytes)

    client.event_hooks = {"response": [bound]}
    return client


class _BoundedStream(httpx2.AsyncByteStream):
    """Response stream that yields whole lines, since each message is a line.

    It fails if the response is longer than `limit_bytes`, a line is too long, or the budget is
    exhausted.
    """

    def __init__(
        self, stream: httpx2.AsyncByteStream, budget: OutputBudget, limit_bytes: int | None
    ) -> None:
        self._stream = stream
        self._budget = budget
        self._limit_bytes = limit_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, rest = 0, bytearray()
        try:
            async for chunk in self._stream:
                size += len(chunk)
                self._budget.take(len(chunk))
                end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
                if self._limit_bytes is not None and size > self._limit_bytes:
                    raise TooMuchOutput
                rest += chunk[:end]
                if end:
                    lines, rest = bytes(rest), bytearray()
                    self._budget.take_values(lines)
                    yield lines
                rest += chunk[end:]
                if len(rest) > MAX_MESSAGE_BYTES:
                    raise TooMuchOutput
            self._budget.take_values(bytes(rest))
        except TooMuchOutput as exc:
            raise httpx2.StreamError(str(exc)) from None
        if rest:
            yield bytes(rest)

    async def aclose(self) -> None:
        await self._stream.aclose()
