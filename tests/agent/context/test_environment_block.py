"""Description of the working environment for the model, compared with the real environment."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.environment_block import describe_environment
from agent.context.system_prompt import Workspace
from agent.security.sandbox.selector import SandboxOptions, select_sandbox
from agent.security.sandbox.unconfined import NoCommands, Unconfined
from agent.settings import AgentSettings, ToolSettings
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.exec import Exec
from agent.types import ToolCall, ToolResult


def _run(settings: AgentSettings, root: Path, command: str) -> ToolResult:
    async def run() -> ToolResult:
        tool, args = Exec(settings.tools), {"command": command}
        call = ToolCall("1", "exec", args, json.dumps(args))
        here = ToolEnvironment("s", root, root / "MEMORY.md", owner=True)
        try:
            return await tool.run(args, CallContext(call, here, lambda *_: None))
        finally:
            await tool.aclose()

    return asyncio.run(run())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "private.txt").write_text("private words\n")
    return root


@pytest.mark.parametrize("blocked", [(".git",), ()])
def test_environment_block_describes_the_sandbox(
    tmp_path: Path, project: Path, blocked: tuple[str, ...]
) -> None:
    sandbox = select_sandbox(SandboxOptions(), tmp_path).sandbox
    if not sandbox.confines:
        pytest.skip("no sandbox works here")
    settings = AgentSettings(tools=ToolSettings(sandbox=sandbox, blocked_paths=blocked))
    block = describe_environment(settings, project, is_project=True)

    assert f"sandbox ({sandbox.name})" in block
    assert f"change at most `{project}`" in block
    assert not _run(settings, project, "echo a > made.txt && echo b > $TMPDIR/made.txt").is_error
    assert (project / "made.txt").read_text() == "a\n"
    assert "private words" not in _run(settings, project, f"cat {tmp_path}/private.txt").for_model
    _run(settings, project, f"echo no > {tmp_path}/made.txt")
    assert not (tmp_path / "made.txt").exists()
    _run(settings, project, "echo x > .git/made")
    closed = "`.git` is read-only" in block or "do not see `.git`" in block
    assert (project / ".git" / "made").exists() is not closed
    assert "Network: none" in block


def test_configured_hosts_are_named(tmp_path: Path) -> None:
    sandbox = select_sandbox(SandboxOptions(), tmp_path).sandbox
    if not sandbox.confines:
        pytest.skip("no sandbox works here")
    tools = ToolSettings(sandbox=sandbox, exec_hosts=("pypi.test", "*.example.test"))
    block = describe_environment(AgentSettings(tools=tools), tmp_path, is_project=False)
    assert "Network: only pypi.test, *.example.test." in block
    assert ".git" not in block


def test_missing_sandbox_is_reported(tmp_path: Path) -> None:
    for sandbox in (None, Unconfined()):
        settings = AgentSettings(tools=ToolSettings(sandbox=sandbox))
        block = describe_environment(settings, tmp_path, is_project=True)
        assert "without a sandbox" in block
    settings = AgentSettings(tools=ToolSettings(sandbox=NoCommands("none here")))
    assert "do not run" in describe_environment(settings, tmp_path, is_project=True)


def test_command_timeout_is_described_correctly(tmp_path: Path) -> None:
    settings = AgentSettings(tools=ToolSettings(exec_timeout_s=0.5))
    assert "for 0.5 s, up to 600 with" in describe_environment(settings, tmp_path, is_project=False)
    assert "0.5" in _run(settings, tmp_path, "sleep 60").for_model
    settings = replace(settings, call_timeout_s=300)
    assert "up to 300 with" in describe_environment(settings, tmp_path, is_project=False)


def test_rules_for_code_need_a_project(tmp_path: Path, project: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    for root, there in ((workspace.folder, False), (project, True)):
        text = workspace.system_prompt(workspace.owner_memory, root, owner=True).text
        assert ("# Working on code" in text) is there


def test_unedited_profile_is_not_in_the_prompt(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    starter = Path(__file__).parents[3] / "workspace" / "USER.md"
    profile = tmp_path / "USER.md"
    profile.write_text(starter.read_text())
    sent = workspace.system_prompt(workspace.owner_memory, tmp_path, owner=True).text
    assert "Filled in over time" not in sent
    profile.write_text(starter.read_text().replace("Language:", "Language: Danish"))
    sent = workspace.system_prompt(workspace.owner_memory, tmp_path, owner=True).text
    assert "Language: Danish" in sent
    assert "Filled in over time" in sent
