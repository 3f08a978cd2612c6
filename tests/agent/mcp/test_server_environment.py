"""Variables of MCP servers reach the server, but not the program that builds its sandbox."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.approvals import FolderAccess
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
    server = McpServerSettings("s", "/usr/bin/python3", ("-B", str(SERVER)), env)
    return await answer_of(tmp_path, server, "mcp__s__where", {}, sandbox)


async def report_of(
    tmp_path: Path, server: McpServerSettings, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return the JSON object that a tool of a server in bubblewrap answers."""
    text = await answer_of(tmp_path, server, tool, arguments, installed_bubblewrap())
    report: dict[str, Any] = json.loads(text)
    return report


async def answer_of(
    tmp_path: Path,
    server: McpServerSettings,
    tool: str,
    arguments: dict[str, Any],
    sandbox: Sandbox,
) -> str:
    (tmp_path / "w").mkdir(parents=True, exist_ok=True)
    agent = Agent(
        ScriptedProvider([calls(call(tool, **arguments)), "done"]),
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


async def test_server_opens_added_folders(tmp_path: Path) -> None:
    """It changes only the writable one, and the root's folders of the protocol are all of them."""
    folders = [tmp_path / name for name in ("work", "changed", "read")]
    for folder in folders:
        folder.mkdir()
        (folder / "one.txt").write_text(folder.name)
        (folder / ".env").write_text("KEY=1")
    work, changed, read = folders
    server = McpServerSettings(
        "s",
        "/usr/bin/python3",
        ("-B", str(SERVER), "files"),
        folder=work,
        added_folders=(FolderAccess(changed, is_writable=True), FolderAccess(read)),
    )
    report = await report_of(
        tmp_path, server, "mcp__s__files", {"folders": list(map(str, folders))}
    )
    assert report["roots"] == [folder.as_uri() for folder in folders]
    assert report[str(work)] == ["work", "written", "PermissionError"]
    assert report[str(changed)] == ["changed", "written", "PermissionError"]
    assert report[str(read)] == ["read", "OSError", "PermissionError"]


async def test_project_server_runs_in_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    script = project / "tools" / "server.py"
    script.write_bytes(SERVER.read_bytes())
    script.chmod(0o755)
    script.write_text("#!/usr/bin/python3\n" + SERVER.read_text())
    args = ("-B", "tools/server.py", str(tmp_path / "data"))
    for command, words in (("/usr/bin/python3", args), ("./tools/server.py", ())):
        server = McpServerSettings("s", command, words, project=project)
        report = await report_of(tmp_path, server, "mcp__s__where", {})
        assert report["folder"] == str(project)
    server = McpServerSettings("s", "python3", args, project=project)
    assert server.open_folders == (FolderAccess(tmp_path / "data", is_writable=True),)
    elsewhere = replace(server, project=tmp_path)
    assert server.program_digest != elsewhere.program_digest


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
