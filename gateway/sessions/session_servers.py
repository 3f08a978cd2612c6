"""MCP servers of one session: an editor names them, and they end with it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import t
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.secret_values import secrets_in_map
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.elicitation import decline
from gateway.core.records import SessionServer

if TYPE_CHECKING:
    from agent.mcp.servers import McpServers
    from agent.tools.registry import JoinSource

_MAX_SERVERS = 50


class SessionServers:
    """Session servers of this process's turns, by lane.

    `learn` receives secrets to redact; `configured` returns the servers that all turns have.
    """

    def __init__(
        self,
        tool_settings: Callable[[], ToolSettings],
        learn: Callable[[Iterable[str]], None],
        configured: "Callable[[], McpServers | None]",
    ) -> None:
        self._tool_settings, self._learn, self._configured = tool_settings, learn, configured
        self._servers: dict[str, McpServers] = {}

    def of(self, lane: str) -> "JoinSource | None":
        """Return a function that adds the tools of a lane's servers to other tools."""
        servers = self._servers.get(lane)
        if servers is None:
            return None
        from agent.mcp.joined_servers import JoinedServers

        return partial(JoinedServers, servers)

    @asynccontextmanager
    async def attach(
        self, lane: str, servers: Sequence[SessionServer]
    ) -> AsyncIterator[AsyncIterator[Sequence[str]]]:
        """Run these servers until the block ends; later ones replace earlier ones.

        A server with the name of a configured server is not started. Raises `KoreError` for an
        invalid server.
        """
        from agent.mcp.servers import McpServers

        configured = self._configured()
        names = () if configured is None else configured.names
        all_settings = tuple(map(_settings_of, servers))
        settings = tuple(setting for setting in all_settings if setting.name not in names)
        clashes = [_clash(setting.name) for setting in all_settings if setting.name in names]
        if len(all_settings) > _MAX_SERVERS:
            text = t("an editor may name {most} MCP servers at most", most=_MAX_SERVERS)
            raise KoreError(text)
        for server in servers:
            self._learn((*secrets_in_map(server.env), *secrets_in_map(server.headers)))
        # Each call brings the people to ask. Homes and logs go with the servers.
        mcp_settings = McpSettings(settings, elicit=decline)
        running = self._servers[lane] = McpServers(mcp_settings, self._tool_settings())
        try:
            yield _failures_of(running, clashes)
        finally:
            if self._servers.get(lane) is running:
                del self._servers[lane]
            await running.aclose()


def _clash(name: str) -> str:
    return t(
        "Kore has an MCP server {name} of its own, which is used in place of the editor's; to use "
        "both, give the editor's another name.",
        name=escape_line(name)[:80],
    )


async def _failures_of(
    servers: "McpServers", clashes: Sequence[str]
) -> AsyncIterator[Sequence[str]]:
    yield (*clashes, *await servers.load())
    # Later failures are reported by the turn that needs the server.
    await asyncio.Event().wait()


def _settings_of(server: SessionServer) -> McpServerSettings:
    """Return the settings of an editor's server.

    A person at this machine named it, but perhaps from a project's files: every call needs
    approval, and its descriptions of tools are untrusted.
    """
    if not server.name.strip() or (server.command is None) == (server.url is None):
        text = t("the MCP server {name} has neither a command nor an address", name=server.name)
        raise KoreError(text)
    return McpServerSettings(
        server.name,
        server.command,
        server.args,
        server.env,
        server.url,
        server.headers,
        is_sse=server.is_sse,
        is_own=False,
        is_configured=False,
    )
