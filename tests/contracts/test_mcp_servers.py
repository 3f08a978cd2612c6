"""Third-party MCP servers: three from npm (older protocol), two from PyPI (newer protocol).

Servers that are not installed are skipped. Install them with `npm install
@modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
@modelcontextprotocol/server-memory` and `pip install mcp-server-time mcp-server-git` in separate
environments, and put both on PATH.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.approvals import FolderAccess
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.security.sandbox.base import Sandbox
from agent.settings import ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.types import ToolCall, ToolResult
from tests.agent.tools.bubblewrap import installed_bubblewrap

pytest.importorskip("mcp", reason="needs the extra mcp")


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


class Calls:
    """Calls of a server's tools by their original names; `output` contains progress reports."""

    def __init__(self, servers: McpServers, folder: Path) -> None:
        self.servers = servers
        self.output: list[str] = []
        self._folder = folder

    async def __call__(self, tool: str, **args: Any) -> ToolResult:
        (server_tool,) = (
            mcp_tool for mcp_tool in self.servers.mcp_tools() if mcp_tool.definition.name == tool
        )
        call = ToolCall("1", server_tool.name, args, json.dumps(args))
        environment = ToolEnvironment("s", self._folder, self._folder / "M.md", owner=True)
        context = CallContext(call, environment, lambda text, stream: self.output.append(text))
        return await server_tool.run(args, context)


@asynccontextmanager
async def calling(
    folder: Path, server: McpServerSettings, elicit: Any = None, sandbox: Sandbox | None = None
) -> AsyncIterator[Calls]:
    settings = McpSettings((server,), folder / "mcp", elicit=elicit)
    servers = McpServers(settings, ToolSettings(sandbox=sandbox))
    try:
        await servers.refresh(server.name)
        yield Calls(servers, folder)
    finally:
        await servers.aclose()


@asynccontextmanager
async def everything(
    folder: Path, transport: str, port: int, elicit: Any = None
) -> AsyncIterator[Calls]:
    """Start the `everything` server over stdio or HTTP."""
    path = program("mcp-server-everything")
    if transport == "stdio":
        async with calling(folder, McpServerSettings("e", path), elicit) as call:
            yield call
        return
    process = await asyncio.create_subprocess_exec(
        *(path, "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while b"listening" not in (line := await process.stdout.readline()):
                assert line, "the server ended by itself"
        url = f"http://127.0.0.1:{port}/mcp"
        async with calling(folder, McpServerSettings("e", url=url), elicit) as call:
            yield call
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.counterpart("server-everything")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_tools_resources_and_elicitation_over_both_transports(
    tmp_path: Path, transport: str, unused_tcp_port: int
) -> None:
    elicitations: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        elicitations.append(question)
        return ElicitationAnswer("accept", {"name": "Ada"})

    async with everything(tmp_path, transport, unused_tcp_port, answer) as call:
        listing = call.servers.listing("e")
        assert listing is not None
        assert (listing.protocol, listing.has_resources) == ("2025-11-25", True)
        assert "args-prompt" in [prompt.name for prompt in listing.prompts]
        assert (await call("get-sum", a=2, b=3)).for_model == "The sum of 2 and 3 is 5."
        assert (await call("get-sum", a="two", b=3)).is_error
        assert len((await call("get-tiny-image")).images) == 1
        assert "temperature" in (await call("get-structured-content", location="Chicago")).for_model
        await call("trigger-long-running-operation", duration=0.2, steps=2)
        assert call.output == ["1/2\n", "2/2\n"]
        resources = (await call("read_resource")).for_model.splitlines()
        text = (await call("read_resource", uri=resources[0].split(": ")[0])).for_model
        assert text
        # The server offers this tool only to clients that support elicitation.
        await call("trigger-elicitation-request")
        assert next(field.name for field in elicitations[0].fields) == "name"


@pytest.mark.counterpart("server-filesystem")
async def test_files_are_written_and_read_in_the_named_folder(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    server = McpServerSettings("f", program("mcp-server-filesystem"), (str(folder),))
    async with calling(tmp_path, server) as call:
        await call("write_file", path=str(folder / "a.txt"), content="one\ntwo\n")
        assert (folder / "a.txt").read_text() == "one\ntwo\n"
        result = await call("read_text_file", path=str(folder / "a.txt"), head=1)
        assert result.for_model == "one"
        outside = await call("read_text_file", path="/etc/hostname")
        assert (outside.is_error, "denied" in outside.for_model) == (True, True)


@pytest.mark.counterpart("server-filesystem")
async def test_two_folders_of_the_filesystem_server(tmp_path: Path) -> None:
    """It replaces the folders of its arguments by the roots that Kore names."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    path = program("mcp-server-filesystem")
    args, added = (str(first), str(second)), (FolderAccess(second, is_writable=True),)
    server = McpServerSettings("f", path, args, added_folders=added)
    async with calling(tmp_path, server, sandbox=installed_bubblewrap()) as call:
        for folder in (first, second):
            await call("write_file", path=str(folder / "a.txt"), content="one")
            assert (folder / "a.txt").read_text() == "one"
    server = replace(server, added_folders=(FolderAccess(second),))
    async with calling(tmp_path, server, sandbox=installed_bubblewrap()) as call:
        assert (await call("read_text_file", path=str(second / "a.txt"))).for_model == "one"
        refused = await call("write_file", path=str(second / "b.txt"), content="two")
        assert "read-only file system" in refused.for_model


@pytest.mark.counterpart("server-memory")
async def test_memory_server_writes_its_file_in_an_added_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    added = (FolderAccess(folder, is_writable=True),)
    server = McpServerSettings("m", program("mcp-server-memory"), env=env, added_folders=added)
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    async with calling(tmp_path, server, sandbox=installed_bubblewrap()) as call:
        await call("create_entities", entities=[ada])
    assert "writes programs" in (folder / "memory.jsonl").read_text()


@pytest.mark.counterpart("server-memory")
async def test_entities_are_kept_between_runs(tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    server = McpServerSettings("m", program("mcp-server-memory"), env=env)
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    async with calling(tmp_path, server) as call:
        await call("create_entities", entities=[ada])
    async with calling(tmp_path, server) as call:
        assert "writes programs" in (await call("search_nodes", query="Ada")).for_model


@pytest.mark.counterpart("mcp-server-time")
async def test_time_is_converted(tmp_path: Path) -> None:
    async with calling(tmp_path, McpServerSettings("t", program("mcp-server-time"))) as call:
        listing = call.servers.listing("t")
        assert listing is not None
        assert listing.protocol == "2026-07-28"
        result = await call(
            "convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
        )
        assert "+9.0h" in result.for_model
        assert (await call("get_current_time", timezone="Nowhere/City")).is_error


@pytest.mark.counterpart("mcp-server-git")
async def test_status_of_a_repository(tmp_path: Path) -> None:
    path = program("mcp-server-git")
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "new.txt").write_text("hello\n")
    server = McpServerSettings("g", path, ("--repository", str(folder)))
    async with calling(tmp_path, server) as call:
        status = await call("git_status", repo_path=str(folder))
        assert "new.txt" in status.for_model
