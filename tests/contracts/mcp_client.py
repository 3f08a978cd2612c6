"""Kore's MCP client for the protocol's conformance tool.

`python -m tests.contracts.mcp_client URL` does what the scenario requires with the server at URL,
through the classes that an agent uses. No person opens the login page: its redirect is the answer.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.mcp.login_file import LoginOptions
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.mcp.tool import McpTool
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.types import ToolCall

REDIRECT_URI = "http://127.0.0.1:43117/callback"
# The protocol's scenario uses this document for a client that registers itself by one.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
# Logins that need no person; neither set of requirements includes them.
EXTENSIONS = ("auth/client-credentials", "auth/enterprise", "auth/dpop", "auth/wif")
SAMPLES: dict[str, Any] = {"string": "a", "boolean": True, "array": [], "object": {}}


class Visitor:
    """A login dialog without a person: the login page agrees at once."""

    redirect_uri = REDIRECT_URI

    def __init__(self) -> None:
        self._answer = ""

    async def show(self, url: str) -> None:
        import httpx2

        async with httpx2.AsyncClient() as client:
            response = await client.get(url)
        self._answer = response.headers["location"]

    async def answer(self) -> str:
        return self._answer


async def accept(question: Elicitation) -> ElicitationAnswer:
    return ElicitationAnswer("accept")


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that match the schema."""
    properties = schema.get("properties", {})
    return {
        name: SAMPLES.get(result.get("type", "string"), n + 3)
        for n, (name, result) in enumerate(properties.items())
        if name in schema.get("required", ())
    }


def context(name: str, folder: Path) -> CallContext:
    environment = ToolEnvironment("s", folder, folder / "MEMORY.md", owner=True)
    return CallContext(ToolCall("1", name, {}, "{}"), environment, lambda text, stream: None)


async def use(tool: McpTool, args: Mapping[str, Any], folder: Path) -> None:
    result = await tool.run(args, context(tool.name, folder))
    print(tool.definition.name, "->", result.for_model[:200])


async def main(url: str, given: Mapping[str, Any]) -> int:
    """List the server's features, then call the scenario's tool, or else every tool."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        protocol = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
        server = McpServerSettings("conformance", url=url, timeout_s=25.0, protocol=protocol)
        servers = McpServers(
            McpSettings((server,), folder, elicit=accept),
            ToolSettings(),
            logins=LoginOptions(
                dialog=Visitor(),
                client_id=given.get("client_id", DOCUMENT),
                client_secret=given.get("client_secret", ""),
            ),
        )
        try:
            await servers.refresh("conformance")
            tools = {tool.definition.name: tool for tool in servers.mcp_tools()}
            calls = [
                (toolcall["name"], toolcall["arguments"]) for toolcall in given.get("toolCalls", ())
            ]
            calls = calls or [(name, sample(tool.parameters)) for name, tool in tools.items()]
            if "json_schema_echo" in tools:
                # The scenario compares the schema that the model would read with its own.
                schema = tools["json_schema_2020_12_tool"].parameters
                calls = [("json_schema_echo", {"schema": schema})]
            work = (use(tools[name], args, folder) for name, args in calls if name in tools)
            ends = await asyncio.gather(*work, return_exceptions=True)
        except ToolError as exc:
            ends = [exc]
        finally:
            await servers.aclose()
    failures = [end for end in ends if end is not None]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    if os.environ["MCP_CONFORMANCE_SCENARIO"].startswith(EXTENSIONS):
        sys.exit("Kore does not speak this extension.")
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    sys.exit(asyncio.run(main(sys.argv[1], given)))
