"""Variables of MCP servers reach the server, but not the program that builds its sandbox."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.mcp.servers import McpServers
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.mcp.stdio import program_folders
from agent.providers.scripted import ScriptedProvider
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.unconfined import Unconfined
from agent.settings import AgentSettings, ToolSettings
from tests.agent.mcp.serving import SERVER
from tests.agent.props import call, calls
from tests.agent.tools.bubblewrap import installed_bubblewrap

pytest.importorskip("mcp", reason="needs the extra mcp")


async def where(tmp_path: Path, env: dict[str, str], sandbox: Sandbox) -> str:
    """Return the server's report of its environment."""
    (tmp_path / "w").mkdir(parents=True)
    server = McpServerSettings("s", "/usr/bin/python3", ("-B", str(SERVER)), env)
    agent = Agent(
        ScriptedProvider([calls(call("mcp__s__where")), "done"]),
        mcp_servers=McpSettings((server,), tmp_path / "mcp"),
        workspace=tmp_path / "w",
        approve=lambda request: "once",
        settings=AgentSettings(tools=ToolSettings(sandbox=sandbox)),
    )
    async with agent:
        result = await agent.run("?")
    (report,) = [message for message in result.messages if message.role == "tool"]
    return report.text


async def test_server_variables_do_not_reach_the_sandbox_program(tmp_path: Path) -> None:
    """A variable of the dynamic linker could run code or write a file outside of the sandbox."""
    (tmp_path / "outside").mkdir()
    env = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "outside" / "escaped")}
    await where(tmp_path / "s", env, installed_bubblewrap())
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("top", ["", "package.json"])
async def test_program_may_be_inside_the_server_folder(tmp_path: Path, top: str) -> None:
    """For root the folder was mounted twice."""
    folder = tmp_path / "own"
    program = folder / "src" / "server.py" if top else folder / "server.py"
    program.parent.mkdir(parents=True)
    shutil.copy(SERVER, program)
    if top:
        (folder / top).write_text("{}")
    settings = McpServerSettings("s", "/usr/bin/python3", ("-B", str(program)), folder=folder)
    tool_settings = ToolSettings(sandbox=installed_bubblewrap())
    servers = McpServers(McpSettings((settings,), tmp_path / "mcp"), tool_settings)
    try:
        assert await servers.load() == []
    finally:
        await servers.aclose()


async def test_script_in_tmp_runs_without_the_rest_of_tmp() -> None:
    sandbox = installed_bubblewrap()
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as state,
        tempfile.NamedTemporaryFile(dir="/tmp", suffix=".py") as script,
    ):
        script.write(SERVER.read_bytes())
        script.flush()
        settings = McpServerSettings("s", "/usr/bin/python3", ("-B", script.name))
        assert program_folders(settings, Path.home())[-1] == Path(script.name)
        servers = McpServers(McpSettings((settings,), Path(state)), ToolSettings(sandbox=sandbox))
        try:
            assert await servers.load() == []
        finally:
            await servers.aclose()


async def test_refused_host_is_named_before_the_last_line(tmp_path: Path) -> None:
    args = ("-B", str(SERVER), "downloads=http://registry.invalid/x")
    settings = McpServerSettings("s", "/usr/bin/python3", args, network=("example.org",))
    tool_settings = ToolSettings(sandbox=installed_bubblewrap())
    servers = McpServers(McpSettings((settings,), tmp_path / "mcp"), tool_settings)
    try:
        (notice,) = await servers.load()
    finally:
        await servers.aclose()
    reason, _, last_line = notice.partition("Its last output was: ")
    assert "registry.invalid" in reason
    assert "refused" in reason
    assert "HTTP Error" in last_line


@pytest.mark.parametrize("is_confined", [True, False])
async def test_server_gets_its_variables(tmp_path: Path, is_confined: bool) -> None:
    sandbox = installed_bubblewrap() if is_confined else Unconfined()
    text = await where(tmp_path, {"TOKEN": "a b\n$(id)'"}, sandbox)
    assert json.loads(text)["token"] == "a b\n$(id)'"
