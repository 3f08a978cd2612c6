"""Tool source that joins the servers of one session with the configured servers."""

import asyncio
import operator
from collections.abc import Collection, Sequence
from itertools import chain

from agent.mcp.search import McpCall, ToolSearch
from agent.mcp.servers import McpServers
from agent.mcp.tool import McpTool
from agent.tools.base import Tool, ToolSource
from agent.types import Taint


class JoinedServers:
    """`ToolSource` of several sources.

    A configured server takes precedence over a session's server of the same name.
    """

    def __init__(self, own: McpServers, configured: ToolSource | None) -> None:
        self._own = own
        self._configured = configured if isinstance(configured, McpServers) else None
        self._parts: tuple[tuple[McpTool, ...], ...] = ((), ())
        self._tools: tuple[McpTool, ...] = ()

    def tools(self) -> tuple[Tool, ...]:
        return self._mcp_tools()

    def starting(self) -> Sequence[str]:
        sources = (self._configured, self._own)
        return [*chain(*(source.starting() for source in sources if source is not None))]

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]:
        sources = (self._own, self._configured)
        return frozenset(
            chain(*(source.taint_of(names) for source in sources if source is not None))
        )

    def search_tools(self, names: Collection[str]) -> tuple[Tool, ...]:
        tools = [tool for tool in self._mcp_tools() if tool.name in names]
        return (ToolSearch(tools), McpCall(tools)) if tools else ()

    async def load(self) -> Sequence[str]:
        sources = (self._configured, self._own)
        notices = await asyncio.gather(*(source.load() for source in sources if source is not None))
        return [*chain(*notices)]

    async def aclose(self) -> None:
        """Do nothing: the owner of each source closes it."""

    def _mcp_tools(self) -> tuple[McpTool, ...]:
        configured_tools = () if self._configured is None else self._configured.mcp_tools()
        parts = (configured_tools, self._own.mcp_tools())
        if any(map(operator.is_not, parts, self._parts)):
            names = () if self._configured is None else self._configured.names
            configured_names = {tool.name for tool in configured_tools}
            session_tools = (tool for tool in parts[1] if tool.server.name not in names)
            self._tools = (
                *configured_tools,
                *(tool for tool in session_tools if tool.name not in configured_names),
            )
            self._parts = parts
        return self._tools
