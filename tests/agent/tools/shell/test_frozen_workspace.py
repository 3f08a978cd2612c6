"""Read-only workspace for commands of a role that may not change files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.security.policy.base import PermissionMode
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import parse_policy
from agent.security.policy.roles import Grants, Role
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_tool import ProcessTool
from agent.turn.tool_catalog import known_tools
from agent.types import ToolCall

WRITING = (
    "echo new | tee old",
    "cp other old",
    "sed -i s/old/new/ old",
    "python3 -c \"open('old', 'w').write('new')\"",
    "touch new",
    "mkdir new",
    "rm old",
)
FROZEN = (
    '{"*": {}, write_file: false}',
    '{"*": {}, edit_file: false}',
    '{"*": {}, write_file: {paths: ["docs/**"]}}',
    '{"*": {}, write_file: {new_files_only: true}}',
    "{read_file: {}, exec: {}}",
    "{read_file: {}, exec: {}, write_file: false}",
)
FREE = (
    '{"*": {}}',
    '{"*": {}, read_file: false}',
    "{read_file: {}, exec: {}, write_file: {}}",
    '{read_file: {}, exec: {}, write_file: {paths: ["src/**"]}}',
)


def role(tools: str) -> Role:
    return parse_policy(f"roles: {{mine: {{tools: {tools}}}}}", "p", known_tools()).roles["mine"]


class Commands:
    """Runs commands of one role without a person to approve them."""

    def __init__(self, call: CallContext, box: Bubblewrap | None) -> None:
        self._call = call
        self.tool = Exec(replace(ToolSettings(), sandbox=box))
        process = ProcessTool(ToolSettings(), self.tool.processes)
        self._registry = ToolRegistry([self.tool, process])
        self._is_confined = box is not None

    async def run(
        self,
        of: Role,
        name: str = "exec",
        mode: PermissionMode = "accept-edits",
        **arguments: Any,
    ) -> str:
        standing = PrincipalContext(of, mode, is_confined=self._is_confined)
        runner = ToolRunner(self._registry, Permissions(RolePolicy(standing)), timeout_s=60)
        context = replace(self._call, call=ToolCall("c", name, arguments, "{}"))
        return (await runner.run(context, _start)).for_model


async def _start() -> None:
    pass


def contents(workspace: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in workspace.iterdir() if path.is_file()}


@pytest.fixture
def files(call: CallContext) -> Path:
    for name in ("old", "other"):
        (call.workspace / name).write_text(name)
    return call.workspace


@pytest.mark.parametrize("tools", FROZEN)
async def test_denied_editing_applies_to_commands(
    tools: str, box: Bubblewrap, call: CallContext, files: Path
) -> None:
    commands, before = Commands(call, box), contents(files)
    for command in WRITING:
        await commands.run(role(tools), command=command)
    assert contents(files) == before
    assert not (files / "new").exists()
    text = await commands.run(role(tools), command="cp other old")
    assert "may not change files" in text
    write = "python3 -c \"import os; open(os.environ['TMPDIR'] + '/x', 'w')\""
    assert await commands.run(role(tools), command=write) == "[exit code 0]"
    await commands.tool.aclose()


@pytest.mark.parametrize("tools", FREE)
async def test_roles_that_may_write_run_commands_normally(
    tools: str, box: Bubblewrap, call: CallContext, files: Path
) -> None:
    commands = Commands(call, box)
    assert await commands.run(role(tools), command="cp other old") == "[exit code 0]"
    assert contents(files)["old"] == "other"
    await commands.tool.aclose()


async def test_read_only_agent_cannot_write_with_commands(
    box: Bubblewrap, call: CallContext, files: Path
) -> None:
    commands, before = Commands(call, box), contents(files)
    of = role('{"*": {}}').with_grants(Grants(allow_write=False))
    for command in WRITING:
        await commands.run(of, command=command)
    assert contents(files) == before
    await commands.tool.aclose()


async def test_read_only_agent_cannot_write_with_background_commands(
    box: Bubblewrap, call: CallContext, files: Path
) -> None:
    commands, before = Commands(call, box), contents(files)
    text = await commands.run(role(FROZEN[0]), command="cp other old; sleep 0.1", background=True)
    await commands.run(role(FROZEN[0]), "process", action="list", wait_s=1)
    await commands.tool.aclose()
    assert contents(files) == before, text


async def test_input_to_a_writing_process_is_rejected(
    box: Bubblewrap, call: CallContext, files: Path
) -> None:
    commands = Commands(call, box)
    await commands.run(role(FREE[0]), mode="auto", command="sh", background=True)
    args = {"action": "input", "id": 1, "text": "cp other old\n"}
    for tools in FROZEN:
        text = await commands.run(role(tools), "process", mode="auto", **args)
        assert "may change files" in text
    process = ProcessTool(ToolSettings(), commands.tool.processes)
    with pytest.raises(ToolError, match="may change files"):
        await process.plan(args, replace(call, may_write=False))
    await commands.tool.aclose()
    assert contents(files)["old"] == "old"


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_unsandboxed_command_needs_approval(
    mode: PermissionMode, call: CallContext, files: Path
) -> None:
    commands, before = Commands(call, None), contents(files)
    for tools in FROZEN:
        for command in WRITING[1:]:
            text = await commands.run(role(tools), mode=mode, command=command)
            assert "Not allowed" in text
    assert contents(files) == before
    standing = PrincipalContext(role(FROZEN[0]), "auto")
    plan = await commands.tool.plan({"command": "cp other old"}, call)
    request = plan.request(commands.tool, {}, call.workspace)
    assert RolePolicy(standing).decide(request).rule == "role-writing"


async def test_role_that_asks_before_edits_asks_before_commands(
    box: Bubblewrap, call: CallContext
) -> None:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    asking = PrincipalContext(
        role('{"*": {}, edit_file: {ask: true}}'), "accept-edits", is_confined=True
    )
    for command, rule in (("cp other old", "role-ask"), ("ls", "confined")):
        plan = await tool.plan({"command": command}, call)
        assert RolePolicy(asking).decide(plan.request(tool, {}, call.workspace)).rule == rule
