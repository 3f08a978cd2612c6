"""Servers of one session beside the configured ones, as one source of tools."""

import asyncio
import operator
from collections.abc import Collection, Sequence
from itertools import chain

from agent.mcp.servers import McpServers
from agent.mcp.tool import McpTool
from agent.tools.base import Tool, ToolSource
from agent.types import Taint


class JoinedServers:
    """A `ToolSource`. Of two servers with the same name the configured one is used."""

    def __init__(self, own: McpServers, configured: ToolSource | None) -> None:
        self._own = own
        self._configured = configured if isinstance(configured, McpServers) else None
        self._parts: tuple[tuple[McpTool, ...], ...] = ((), ())
        self._tools: tuple[McpTool, ...] = ()

    def tools(self) -> tuple[Tool, ...]:
        return self._mcp_tools()

    def starting(self) -> Sequence[str]:
        sources = (self._configured, self._own)
        return [*chain(*(one.starting() for one in sources if one is not None))]

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]:
        sources = (self._own, self._configured)
        return frozenset(chain(*(one.taint_of(names) for one in sources if one is not None)))

    def search_tools(self, names: Collection[str]) -> tuple[Tool, ...]:
        from agent.mcp.search import McpCall, ToolSearch

        tools = [tool for tool in self._mcp_tools() if tool.name in names]
        return (ToolSearch(tools), McpCall(tools)) if tools else ()

    async def load(self) -> Sequence[str]:
        sources = (self._configured, self._own)
        notices = await asyncio.gather(*(one.load() for one in sources if one is not None))
        return [*chain(*notices)]

    async def aclose(self) -> None:
        """Each is closed where it was opened."""

    def _mcp_tools(self) -> tuple[McpTool, ...]:
        first = () if self._configured is None else self._configured.mcp_tools()
        parts = (first, self._own.mcp_tools())
        if any(map(operator.is_not, parts, self._parts)):
            names = () if self._configured is None else self._configured.names
            taken = {tool.name for tool in first}
            further = (one for one in parts[1] if one.server.name not in names)
            self._tools = (*first, *(one for one in further if one.name not in taken))
            self._parts = parts
        return self._tools
