"""The streams that lead to an MCP server over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agent.mcp.settings import McpServerSettings

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def open_http(
    server: McpServerSettings, on_end: Callable[[], None], auth: Any = None
) -> AsyncIterator["TransportStreams"]:
    """The streams, as the SDK's `Transport` has them. `auth` is what adds tokens to requests.
    Each request is one of its own: there is no end to be told of."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    assert server.url is not None
    headers = dict(server.headers)
    if server.is_sse:
        from mcp.client.sse import sse_client

        async with sse_client(server.url, headers=headers, auth=auth) as streams:
            yield streams
        return
    async with (
        create_mcp_http_client(headers=headers, auth=auth) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams
