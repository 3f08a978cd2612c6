"""Reports of every file-creating tool to the policy about files that other programs run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.security.policy.base import PermissionMode
from agent.security.policy.engine import DefaultPolicy
from agent.security.taint.origin import TrustedOrigins
from agent.tools.base import CallContext
from agent.tools.runner import Permissions, ToolRunner
from agent.types import ToolCall, ToolResult

ADDING = "*** Begin Patch\n*** Add File: .npmrc\n+x=1\n*** End Patch\n"
MOVING = "*** Begin Patch\n*** Update File: tool.sh\n*** Move to: run\n@@\n-a\n+b\n*** End Patch\n"
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("write_file", {"path": "conftest.py", "content": "x = 1\n"}, "conftest.py"),
    ("append_file", {"path": ".github/workflows/ci.yml", "content": "on: push\n"}, ".github"),
    ("apply_patch", {"input": ADDING}, ".npmrc"),
    ("apply_patch", {"input": MOVING}, "run"),
    ("move_file", {"path": "notes.txt", "to": "Makefile"}, "Makefile"),
    ("move_file", {"path": "tool.sh", "to": "run"}, "run"),
    ("sync_virtual", {}, "setup.py"),
    ("exec", {"command": "echo x > .envrc2"}, ".envrc2"),
]


@pytest.fixture
def files(workspace: Path) -> Path:
    (workspace / "notes.txt").write_text("all:\n")
    (workspace / "tool.sh").write_text("a\n")
    (workspace / "tool.sh").chmod(0o755)
    return workspace


async def run(
    call: CallContext, place: Path, name: str, arguments: dict[str, Any], mode: PermissionMode
) -> ToolResult:
    """Return the result with `place` as the personal workspace, without a person to approve."""
    agent = Agent("offline/echo", workspace=call.workspace)
    runner = ToolRunner(agent.toolbox, Permissions(DefaultPolicy(mode)), timeout_s=30)
    environment = replace(call.environment, places=TrustedOrigins((place.resolve(),)))
    steps = [(name, arguments)]
    if name == "sync_virtual":
        steps.insert(0, ("create_virtual", {"path": "setup.py", "content": "x = 1\n"}))

    async def starts() -> None:
        """Ignore the start of the call."""

    result = None
    for step, values in steps:
        tool_call = ToolCall("c1", step, values, json.dumps(values))
        result = await runner.run(replace(call, call=tool_call, environment=environment), starts)
    await agent.aclose()
    assert result is not None
    return result


@pytest.mark.parametrize(("name", "arguments", "created"), CALLS)
async def test_self_running_file_is_rejected_in_an_untrusted_project(
    call: CallContext, files: Path, name: str, arguments: dict[str, Any], created: str
) -> None:
    result = await run(call, files.parent / "elsewhere", name, arguments, "accept-edits")
    assert result.is_error, result.for_model
    assert "Not allowed" in result.for_model
    assert not (files / created).exists()


@pytest.mark.parametrize(("name", "arguments", "created"), CALLS)
async def test_self_running_file_is_written_in_auto_mode(
    call: CallContext, files: Path, name: str, arguments: dict[str, Any], created: str
) -> None:
    result = await run(call, files.parent / "elsewhere", name, arguments, "auto")
    assert not result.is_error, result.for_model
    assert (files / created).exists()


@pytest.mark.parametrize(("name", "arguments", "created"), CALLS[:-1])
async def test_self_running_file_is_written_in_the_personal_workspace(
    call: CallContext, files: Path, name: str, arguments: dict[str, Any], created: str
) -> None:
    result = await run(call, files, name, arguments, "accept-edits")
    assert not result.is_error, result.for_model
    assert (files / created).exists()
