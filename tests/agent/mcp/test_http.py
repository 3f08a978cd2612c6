"""Misbehaving MCP servers over HTTP."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from agent.errors import ToolError
from agent.mcp.servers import McpServers
from agent.mcp.settings import MAX_MESSAGE_BYTES, McpServerSettings, McpSettings
from agent.settings import ToolSettings
from tests.agent.props import call_context
from tests.fakes.loopback import LoopbackServer
from tests.fakes.outbound_proxy import HttpProxy

pytest.importorskip("mcp", reason="needs the extra mcp")


class WildServer(LoopbackServer):
    """A server with one tool per kind of misbehaviour; `large` answers with that many bytes."""

    tools = ("large", "packed", "elsewhere", "broken", "no_answer", "swarm", "shouts")

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.app.router.add_post("/mcp", self._mcp)

    async def _mcp(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        if "id" not in body:
            return web.Response(status=202)
        answer = {"jsonrpc": "2.0", "id": body["id"]}
        match body["method"]:
            case "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "wild", "version": "1"},
                }
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                answer["result"] = {"tools": tools}
            case "tools/call":
                return await self._misbehave(request, body["params"]["name"], answer)
            case _:
                answer["error"] = {"code": -32601, "message": "no such method"}
        return web.json_response(answer)

    async def _misbehave(
        self, request: web.Request, tool: str, answer: dict[str, object]
    ) -> web.StreamResponse:
        self.requests.append(tool)
        text = "x" * (MAX_MESSAGE_BYTES + 1)
        answer["result"] = {"content": [{"type": "text", "text": text}]}
        data = json.dumps(answer).encode()
        headers = {"Content-Type": "application/json"}
        match tool:
            case "swarm":
                result = f'{{"jsonrpc": "2.0", "id": {answer["id"]}, "result": {{"content": ['
                return web.Response(body=f"{result}{'{},' * 3_000_000}{{}}]}}}}", headers=headers)
            case "shouts":
                return await self._shout(request)
            case "large":
                return web.Response(body=data, headers=headers)
            case "packed":
                headers["Content-Encoding"] = "gzip"
                return web.Response(body=gzip.compress(data), headers=headers)
            case "elsewhere":
                raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/secrets")
            case "broken":
                return web.Response(text="<html>oops", content_type="text/html")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": nothing\n\n")
        return response

    async def _shout(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        params = {"level": "info", "data": "x" * 14_000_000}
        event = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        data = f"data: {json.dumps(event)}\n\n".encode()
        for _ in range(40):
            await response.write(data)
        return response


@asynccontextmanager
async def wild(folder: Path) -> AsyncIterator[tuple[WildServer, McpServers]]:
    async with WildServer() as server:
        mcp_tool = McpServerSettings("w", url=f"{server.url}/mcp", timeout_s=20.0)
        servers = McpServers(McpSettings((mcp_tool,), folder), ToolSettings())
        try:
            assert await servers.load() == []
            yield server, servers
        finally:
            await servers.aclose()


@pytest.mark.parametrize("tool", WildServer.tools)
async def test_misbehaviour_is_reported_in_one_sentence(tmp_path: Path, tool: str) -> None:
    async with wild(tmp_path) as (server, servers):
        (mcp_tool,) = (
            candidate for candidate in servers.mcp_tools() if candidate.definition.name == tool
        )
        with pytest.raises(ToolError, match="MCP server w") as failure:
            await mcp_tool.run({}, call_context(mcp_tool.name, tmp_path))
        assert server.requests == [tool]
        assert len(str(failure.value)) < 500
        assert ("more than Kore accepts" in str(failure.value)) == (tool in ("large", "packed"))
        assert ("endless data" in str(failure.value)) == (tool == "swarm")
        # The server is available for the next call.
        assert len((await servers.refresh("w")).tools) == len(server.tools)


async def test_loopback_server_is_reached_without_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from agent.mcp.http import bounded_client

    async with WildServer() as server, HttpProxy(server.port) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with bounded_client() as client:
            for host in ("127.0.0.1", "localhost"):
                assert (await client.post(f"http://{host}:{server.port}/mcp", json=body)).is_success
            assert proxy.targets == []
            assert (await client.post("http://tools.example/mcp", json=body)).is_success
    assert proxy.targets == ["http://tools.example/mcp"]
