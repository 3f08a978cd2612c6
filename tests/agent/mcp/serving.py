"""MCP servers of a configuration, and an agent that calls them."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agent.agent import Agent
from agent.approvals import ApprovalRequest
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.types import Result
from tests import fakes
from tests.agent.props import call, calls

SERVER = Path(fakes.__file__).with_name("mcp_server.py")


def stand_in(*behaviours: str, name: str = "s", **settings: object) -> McpServerSettings:
    args = ("-B", str(SERVER), *behaviours)
    return McpServerSettings(name, sys.executable, args, **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(
    folder: Path,
    *servers: McpServerSettings,
    first_listing_timeout_s: float = 60.0,
) -> AsyncIterator[McpServers]:
    """Run these servers while the context is open; a loaded machine starts them slowly."""
    running = McpServers(
        McpSettings(servers, folder),
        ToolSettings(),
        first_listing_timeout_s=first_listing_timeout_s,
    )
    try:
        yield running
    finally:
        await running.aclose()


def names(servers: McpServers) -> list[str]:
    return [tool.name for tool in servers.tools()]


class Approver:
    """A person who approves everything and records the requests."""

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> str:
        self.requests.append(request)
        return "once"


async def ask_agent(
    tmp_path: Path,
    server: McpServerSettings,
    tool: str,
    arguments: dict[str, str],
    approve: Callable[[ApprovalRequest], str] | None = None,
    mode: str = "ask",
) -> Result:
    """Run a turn in which the model calls this tool."""
    (tmp_path / "w").mkdir(exist_ok=True)
    agent = Agent(
        ScriptedProvider([calls(call(tool, **arguments)), "done"]),
        mcp_servers=McpSettings((server,), tmp_path / "mcp"),
        approve=approve,  # type: ignore[arg-type]
        mode=mode,  # type: ignore[arg-type]
        workspace=tmp_path / "w",
    )
    async with agent:
        return await agent.run("go")


def tool_message(result: Result) -> str:
    return next(message.text for message in result.messages if message.role == "tool")
