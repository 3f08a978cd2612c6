"""MCP servers that an editor names for a session."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio, SseMcpServer

from tests.fakes import mcp_listener, mcp_server
from tests.fakes.editor import KEY, EditorSetup, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.parts import wait_until
from tests.gateway.server.processes import free_port

pytest.importorskip("mcp", reason="needs the extra mcp")
SECRET = "swordfish-0123456789"


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


def stdio(name: str = "stand") -> McpServerStdio:
    env = [EnvVariable(name="TOKEN", value=SECRET)]
    return McpServerStdio(name=name, command=sys.executable, args=[mcp_server.__file__], env=env)


def calls(tool: str, **arguments: Any) -> ReplyScript:
    return ReplyScript(tool_calls=(Call(tool, arguments),))


def results(setup: EditorSetup) -> list[str]:
    """Return the results of the last turn's tools, as the model reads them."""
    messages = setup.model.requests[-1].body["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def offered(setup: EditorSetup) -> set[str]:
    tools = setup.model.requests[-1].body["tools"]
    return {tool["function"]["name"] for tool in tools if "mcp__" in tool["function"]["name"]}


@asynccontextmanager
async def http_server(*transport: str) -> AsyncIterator[str]:
    """Run a real MCP server over HTTP, and yield its address once it answers."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", mcp_listener.__file__, str(port), *transport),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}/{'sse' if transport else 'mcp'}"
    finally:
        process.kill()
        await process.wait()


def servers_alive() -> list[str]:
    """Return the ids of processes on this machine that have this test's secret."""
    alive = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and SECRET.encode() in (folder / "environ").read_bytes():
                alive.append(folder.name)
        except OSError:
            continue
    return alive


async def until_gone() -> None:
    await wait_until(lambda: not servers_alive())


@pytest.mark.programs("bwrap")
async def test_stdio_server_asks_works_and_ends_with_its_session(
    setup: EditorSetup,
) -> None:
    async with setup.open() as (editor, connection, _):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[stdio()])
        setup.model.script(calls("mcp__stand__where"), "There.")
        assert await setup.ask(connection, opened.session_id, words("where?")) == "end_turn"
        # The call was confirmed before it ran. The editor's variables reach the server but not the
        # model.
        assert [question[0].title for question in editor.questions]
        assert '"token": "' in results(setup)[-1]
        assert SECRET not in setup.model.requests[-1].raw.decode()
        editor.answer = "deny"
        setup.model.script(calls("mcp__stand__echo", text="hello"), "No then.")
        await setup.ask(connection, opened.session_id, words("say hello"))
        assert "hello" not in results(setup)[-1]
        # Another session of the same editor does not have the server.
        other = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        setup.model.script("Nothing.")
        await setup.ask(connection, other.session_id, words("and you?"))
        assert offered(setup) == set()
        assert servers_alive()
        await connection.close_session(session_id=opened.session_id)
        await until_gone()
    assert SECRET not in "".join(
        file.read_text(errors="replace") for file in setup.home.rglob("*") if file.is_file()
    )


async def test_http_server_is_available_after_a_load(setup: EditorSetup) -> None:
    async with http_server() as url, setup.open() as (editor, connection, _):
        header = HttpHeader(name="X-Token", value=SECRET)
        server = HttpMcpServer(type="http", name="far", url=url, headers=[header])
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[server])
        setup.model.script(calls("mcp__far__grow"), "Grown.")
        await setup.ask(connection, opened.session_id, words("grow"))
        assert results(setup)[-1].count("grown") == 1
        # The tools of a conversation stay the same while its servers only add some.
        for servers, names in (([server], {"grow", "read_resource"}), ([], set())):
            await connection.load_session(
                cwd=str(setup.project), session_id=opened.session_id, mcp_servers=servers
            )
            setup.model.script("Here.")
            await setup.ask(connection, opened.session_id, words("what is there?"))
            assert offered(setup) == {f"mcp__far__{name}" for name in names}
        assert "MCP server" not in editor.text()


async def test_announced_transports_work(setup: EditorSetup) -> None:
    async with http_server("sse") as url, setup.open() as (editor, connection, _):
        announced = await connection.initialize(protocol_version=1)
        offer = announced.agent_capabilities.mcp_capabilities
        assert (offer.http, offer.sse, offer.acp) == (True, True, False)
        server = SseMcpServer(type="sse", name="old", url=url, headers=[])
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[server])
        setup.model.script(calls("mcp__old__grow"), "Grown.")
        await setup.ask(connection, opened.session_id, words("grow"))
        assert "grown" in results(setup)[-1]
        assert len(editor.questions) == 1
        assert editor.text() == "Grown."


@pytest.mark.programs("bwrap")
async def test_failing_server_is_reported_in_one_sentence(
    setup: EditorSetup,
) -> None:
    setup.set_config(
        mcp_servers={"mine": {"command": sys.executable, "args": [mcp_server.__file__]}}
    )
    missing = McpServerStdio(name="gone", command="/nowhere/server", args=[], env=[])
    nowhere = HttpMcpServer(type="http", name="odd", url="file:///etc/passwd", headers=[])
    async with setup.open() as (editor, connection, _):
        named = [missing, nowhere, stdio("mine")]
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=named)
        setup.model.script("All the same.")
        assert await setup.ask(connection, opened.session_id, words("hi")) == "end_turn"
        text = editor.text()
        assert text.endswith("All the same.")
        assert text.count("gone") == 1
        assert "The MCP server odd cannot be used" in text
        assert "mcp__mine__echo" in offered(setup)
        assert text.count("Kore has an MCP server mine of its own") == 1
        assert not servers_alive()
        # The notice appears only once.
        setup.model.script("Again.")
        await setup.ask(connection, opened.session_id, words("hi again"))
        assert editor.text().count("cannot be used") == 1


@pytest.mark.programs("bwrap")
async def test_servers_are_restarted_after_a_takeover(
    setup: EditorSetup,
) -> None:
    async with setup.open() as (_, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[stdio()])
        async with setup.gateway() as kill:
            setup.model.script(calls("mcp__stand__echo", text="over here"), "Said.")
            assert await setup.ask(connection, opened.session_id, words("say it")) == "end_turn"
            assert "over here" in results(setup)[-1]
            await kill()
            await until_gone()
        setup.model.script(calls("mcp__stand__echo", text="and here"), "Said.")
        assert await setup.ask(connection, opened.session_id, words("say it")) == "end_turn"
        assert "and here" in results(setup)[-1]
