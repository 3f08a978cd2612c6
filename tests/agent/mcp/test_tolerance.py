"""Servers that send partly malformed results, hang, start slowly or lose a session."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.errors import ToolError
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.settings import ToolSettings
from agent.tools.registry import ToolRegistry
from agent.turn.context_usage import environment_of
from tests.agent.mcp.serving import names, serving, stand_in
from tests.agent.props import call_context, scripted
from tests.fakes.loopback import LoopbackServer

pytest.importorskip("mcp", reason="needs the extra mcp")

OBJECT = {"type": "object"}
TEXT = {"type": "text", "text": "words"}


def answering(folder: Path, results: Mapping[str, Any], *behaviours: str) -> McpServerSettings:
    """Return a server with these results."""
    file = folder / "raw.json"
    file.write_text(json.dumps(results))
    return stand_in(f"raw={file}", *behaviours)


async def run(servers: McpServers, tool: str, folder: Path, **arguments: Any) -> str:
    (mcp_tool,) = (
        candidate for candidate in servers.mcp_tools() if candidate.definition.name == tool
    )
    return (await mcp_tool.run(arguments, call_context(mcp_tool.name, folder))).for_model


async def test_only_the_malformed_tool_is_left_out(tmp_path: Path) -> None:
    tools = [
        {"name": "plain", "inputSchema": OBJECT},
        {"name": "no_type", "inputSchema": {"properties": {"a": {"type": "string"}}}},
        {"name": "no_schema"},
        {"name": "odd_title", "inputSchema": OBJECT, "title": 7, "annotations": "none"},
        {"name": "odd_words", "inputSchema": OBJECT, "description": ["x"]},
        {"name": "list_schema", "inputSchema": {"type": "array"}},
        {"name": "a name with blanks", "inputSchema": OBJECT},
        {"inputSchema": OBJECT},
        "no tool",
    ]
    prompts = [{"name": "greet"}, {"name": "odd", "arguments": "none"}, {"description": "x"}]
    results = {
        "tools/list": {"tools": tools, "nextCursor": 7},
        "prompts/list": {"prompts": prompts},
        "resources/list": {"resources": [{"uri": "memo://one", "name": "One"}, {"name": "none"}]},
    }
    async with serving(tmp_path, answering(tmp_path, results)) as servers:
        (notice,) = await servers.load()
        for name in ("list_schema", "a name with blanks", "(without a name)"):
            assert name in notice
        assert "no_type" not in notice
        offered = [tool.definition.name for tool in servers.mcp_tools()]
        read = ["plain", "no_type", "no_schema", "odd_title", "odd_words", "read_resource"]
        assert offered == read
        no_type = servers.mcp_tools()[1].parameters
        assert no_type == {"type": "object", "properties": {"a": {"type": "string"}}}
        listing = servers.listing("s")
        assert listing is not None
        assert [prompt.name for prompt in listing.prompts] == ["greet", "odd"]
        assert "memo://one" in await run(servers, "read_resource", tmp_path)
        assert await servers.load() == []
    async with serving(tmp_path, answering(tmp_path, results)) as servers:
        assert servers.listing("s") == listing


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"content": [{"type": "hologram", "data": "x"}, TEXT]}, ["hologram", "words"]),
        ({"content": [{"type": "text"}, TEXT, 7]}, ["text: cannot be shown", "words"]),
        ({"content": [{**TEXT, "annotations": {"priority": "high"}}]}, ["words"]),
        ({"structuredContent": {"found": 3}}, ['{"found": 3}']),
        ({"content": None, "structuredContent": {"found": 3}}, ['{"found": 3}']),
        ({"content": [], "structuredContent": [1, 2]}, ["[1, 2]"]),
        ({"content": [TEXT], "structuredContent": "x", "_meta": 5}, ["words"]),
    ],
)
async def test_valid_parts_of_a_result_are_read(
    tmp_path: Path, result: dict[str, Any], words: list[str]
) -> None:
    tool = {"name": "act", "inputSchema": OBJECT, "outputSchema": {**OBJECT, "required": ["n"]}}
    results = {"tools/list": {"tools": [tool]}, "tools/call": result}
    async with serving(tmp_path, answering(tmp_path, results)) as servers:
        await servers.load()
        text = await run(servers, "act", tmp_path)
        for word in words:
            assert word in text


async def test_valid_parts_of_a_resource_are_read(tmp_path: Path) -> None:
    contents = [{"uri": "memo://one", "text": "words"}, {"uri": "memo://two"}, 5]
    async with serving(
        tmp_path, answering(tmp_path, {"resources/read": {"contents": contents}})
    ) as servers:
        await servers.load()
        text = await run(servers, "read_resource", tmp_path, uri="memo://one")
        assert text.startswith("words")
        assert "cannot be shown" in text


async def test_hanging_server_is_restarted_for_the_next_call(tmp_path: Path) -> None:
    async with serving(tmp_path, stand_in("hang-once", timeout_s=1.0)) as servers:
        await servers.load()
        with pytest.raises(ToolError, match="It does not respond; it is restarted"):
            await run(servers, "echo", tmp_path, text="one")
        assert await run(servers, "echo", tmp_path, text="two") == "two"


async def test_responsive_server_survives_a_cancelled_call(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, stand_in("ignores", timeout_s=1.0)) as servers:
        await servers.load()
        with pytest.raises(ToolError, match=r"within 1 s\.$"):
            await run(servers, "echo", tmp_path, text="one")
        await servers.refresh("s")
        words = (servers.folder_of("s") / "log").read_text()
        assert words.count("stand-in server begins") == 1
        assert words.count("a request was cancelled") == 1


async def test_slow_start_is_reported_to_person_and_model(tmp_path: Path) -> None:
    server = stand_in("waits")
    running = McpServers(
        McpSettings((server,), tmp_path), ToolSettings(), first_listing_timeout_s=0.1
    )
    try:
        (notice,) = await running.load()
        assert "The MCP server s is still starting" in notice
        assert await running.load() == []
        agent, _ = scripted(["bye"], tmp_path)
        toolbox = ToolRegistry([], running)
        assert "still starting, so their tools are not there yet: s" in environment_of(
            agent, toolbox, tmp_path
        )
        (running.folder_of("s") / "work" / "go").write_text("")
        async with asyncio.timeout(30):
            while not running.tools():
                await asyncio.sleep(0.01)
        assert names(running)[0] == "mcp__s__echo"
        assert environment_of(agent, toolbox, tmp_path) == ""
    finally:
        await running.aclose()


class RestartedServer(LoopbackServer):
    """A server that can lose its sessions and then answers as `form` says."""

    FORMS: Mapping[str, tuple[int, str, str]] = {
        "bare": (404, "", "text/plain"),
        "page": (404, "<html>Not Found", "text/html"),
        "json": (404, '{"detail": "Not Found"}', "application/json"),
        "error": (
            *(404, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "?"}}'),
            "application/json",
        ),
        "bad request": (
            *(400, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No"}}'),
            "application/json",
        ),
        "gone": (410, "", "text/plain"),
    }

    def __init__(self, form: str = "bare") -> None:
        super().__init__()
        self.form = form
        self.sessions = 0
        self.calls: list[str] = []
        self._session = ""
        self.app.router.add_post("/mcp", self._mcp)

    def restart(self) -> None:
        self._session = ""

    async def _mcp(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        headers = {}
        if body["method"] == "initialize":
            self.sessions += 1
            self._session = headers["Mcp-Session-Id"] = f"session-{self.sessions}"
        elif request.headers.get("Mcp-Session-Id") != self._session:
            status, text, content_type = self.FORMS[self.form]
            return web.Response(status=status, text=text, content_type=content_type)
        if "id" not in body:
            return web.Response(status=202)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        match body["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "restarted", "version": "1"},
                }
            case "tools/list":
                tools = [{"name": name, "inputSchema": OBJECT} for name in ("act", "wrong", "cut")]
                answer["result"] = {"tools": tools}
            case "tools/call":
                name = body["params"]["name"]
                self.calls.append(name)
                if name == "cut":
                    # The server has acted before the connection is lost.
                    self.restart()
                    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                    await response.prepare(request)
                    return response
                if name == "wrong":
                    answer["error"] = {"code": -32602, "message": "wrong arguments"}
                    return web.json_response(answer, status=400)
                answer["result"] = {"content": [TEXT]}
            case "ping":
                answer["result"] = {}
            case _:
                answer["error"] = {"code": -32601, "message": "no such method"}
        return web.json_response(answer, headers=headers)


@asynccontextmanager
async def restarted(folder: Path, form: str) -> AsyncIterator[tuple[RestartedServer, McpServers]]:
    async with RestartedServer(form) as server:
        each = McpServerSettings("r", url=f"{server.url}/mcp", timeout_s=20.0)
        async with serving(folder, each) as servers:
            await servers.load()
            assert await run(servers, "act", folder) == "words"
            yield server, servers


@pytest.mark.parametrize("form", RestartedServer.FORMS)
async def test_call_is_repeated_after_a_server_restart(tmp_path: Path, form: str) -> None:
    async with restarted(tmp_path, form) as (server, servers):
        begun = server.sessions
        for count in (1, 2):
            server.restart()
            assert await run(servers, "act", tmp_path) == "words"
            assert server.sessions == begun + count
        server.restart()
        assert len((await servers.refresh("r")).tools) == 3
        assert server.calls == ["act"] * 3


async def test_call_that_may_have_acted_is_not_repeated(tmp_path: Path) -> None:
    async with restarted(tmp_path, "bare") as (server, servers):
        with pytest.raises(ToolError, match="MCP server r"):
            await run(servers, "cut", tmp_path)
        assert server.calls == ["act", "cut"]
        assert await run(servers, "act", tmp_path) == "words"


async def test_rejected_message_does_not_end_a_session(tmp_path: Path) -> None:
    async with restarted(tmp_path, "bare") as (server, servers):
        begun = server.sessions
        with pytest.raises(ToolError, match="wrong arguments"):
            await run(servers, "wrong", tmp_path)
        assert await run(servers, "act", tmp_path) == "words"
        assert server.sessions == begun
