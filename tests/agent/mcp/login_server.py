"""MCP server with a login, and the login of a client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.mcp.login_file import LoginDialog, LoginOptions
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.redaction import Redactor
from agent.settings import ToolSettings
from tests.agent.props import call_context
from tests.fakes.oauth_mcp import OauthMcpServer, open_page


class Browser:
    """A login dialog with a person who consents; `change` modifies the returned address."""

    def __init__(self, port: int = 41999, change: tuple[str, str] = ("", "")) -> None:
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        self.urls: list[str] = []
        self._change = change
        self._address = ""

    async def show(self, url: str) -> None:
        self.urls.append(url)
        self._address = (await open_page(url)).replace(*self._change)

    async def answer(self) -> str:
        return self._address


@asynccontextmanager
async def servers(
    server: OauthMcpServer,
    folder: Path,
    dialog: LoginDialog | None = None,
    sealer: Any = None,
    redactor: Redactor | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[McpServers]:
    each = McpServerSettings("g", url=f"http://{host}:{server.port}/mcp")
    learn = Redactor().learn if redactor is None else redactor.learn
    options = LoginOptions(learn, dialog)
    running = McpServers(McpSettings((each,), folder, sealer), ToolSettings(), logins=options)
    try:
        yield running
    finally:
        await running.aclose()


async def log_in(server: OauthMcpServer, folder: Path, sealer: Any = None) -> None:
    async with servers(server, folder, Browser(), sealer) as running:
        await running.refresh("g")


async def whoami(running: McpServers) -> str:
    (tool,) = running.mcp_tools()
    result = await tool.run({}, call_context(tool.name, Path.cwd()))
    return result.for_model
