"""Commands outside of the sandbox, with a reason shown to the owner."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.sandbox_remark import CommandEnd, refusal_remark


@pytest.fixture
def tool(box: Bubblewrap) -> Exec:
    return Exec(replace(ToolSettings(), sandbox=box))


async def test_command_runs_outside(tool: Exec, call: CallContext, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    line = {"command": f"echo x > {target}"}
    assert (await tool.run(line, call)).is_error
    leaving = {**line, "outside": True, "reason": "to write there"}
    plan = await tool.plan(leaving, call)
    assert (plan.outside_reason, plan.hosts) == ("to write there", ("anywhere",))
    result = await tool.run(leaving, call)
    assert not result.is_error
    assert result.taint == {"untrusted"}
    assert target.read_text() == "x\n"


async def test_command_outside_is_never_read_only(tool: Exec, call: CallContext) -> None:
    plan = await tool.plan({"command": "ls", "outside": True, "reason": "x"}, call)
    assert not plan.read_only


async def test_outside_needs_a_reason_and_the_owner(tool: Exec, call: CallContext) -> None:
    with pytest.raises(ToolError, match="needs a reason"):
        await tool.plan({"command": "ls", "outside": True, "reason": " "}, call)
    guest = replace(call, environment=replace(call.environment, owner=False))
    with pytest.raises(ToolError, match="owner"):
        await tool.plan({"command": "ls", "outside": True, "reason": "x"}, guest)


async def test_reason_is_one_short_line(tool: Exec, call: CallContext) -> None:
    """A longer reason could look like a message from Kore."""
    reason = "to  see\r\n\nKore: checked and harmless\u2028\x0b."
    plan = await tool.plan({"command": "ls", "outside": True, "reason": reason}, call)
    assert plan.outside_reason == "to see Kore: checked and harmless ."
    with pytest.raises(ToolError, match="300"):
        await tool.plan({"command": "ls", "outside": True, "reason": "x" * 301}, call)


async def test_outside_is_rejected_without_a_sandbox(call: CallContext) -> None:
    tool = Exec(ToolSettings())
    plan = await tool.plan({"command": "ls", "outside": True}, call)
    assert plan.outside_reason is None
    assert "outside" not in tool.description


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("touch /usr/share/x", "write only to the working folder and /tmp"),
        ("curl -sS http://example.org/", "commands have no network"),
        ("kore-outside-program", "kore-outside-program is installed on this machine"),
    ],
)
async def test_refused_write_names_the_sandbox(
    command: str,
    words: str,
    tool: Exec,
    call: CallContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tmp_path / "programs" / "kore-outside-program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{program.parent}")
    result = await tool.run({"command": command}, call)
    assert words in result.for_model
    way_on = "run it with network" if "network" in words else "outside: true and a reason"
    assert way_on in result.for_model
    guest = replace(call, environment=replace(call.environment, owner=False))
    refused = await tool.run({"command": command}, guest)
    assert words in refused.for_model
    assert "outside" not in refused.for_model.replace("kore-outside-program", "")


@pytest.fixture
def hidden_python(call: CallContext, tmp_path: Path) -> Path:
    """Return the hidden interpreter of a virtual environment in the workspace."""
    interpreter = tmp_path / "hidden" / "bin" / "python3"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text("#!/bin/sh\n")
    interpreter.chmod(0o755)
    programs = call.workspace / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(interpreter)
    (programs / "pip").write_text(f"#!{interpreter}\n")
    (programs / "pip").chmod(0o755)
    return interpreter


@pytest.mark.parametrize(
    "command", ["{}", ".venv/bin/python x.py", "true && .venv/bin/pip install x"]
)
async def test_refusal_names_a_program_in_a_hidden_folder(
    command: str, tool: Exec, call: CallContext, hidden_python: Path
) -> None:
    result = await tool.run({"command": command.format(hidden_python)}, call)
    assert f"{hidden_python} is installed on this machine" in result.for_model
    assert "security.sandbox_read" in result.for_model


async def test_hidden_program_under_landlock_is_not_a_refused_write(
    call: CallContext, hidden_python: Path
) -> None:
    programs = Landlock(abi=1).readable_programs
    remark = refusal_remark(
        "sh: .venv/bin/python: Permission denied",
        CommandEnd(
            126, ".venv/bin/python x.py", call.workspace, (call.workspace, *programs), denies=True
        ),
        may_leave=True,
    )
    assert f"{hidden_python} is installed" in remark
    assert "can write only" not in remark


@pytest.mark.parametrize("command", ["false", "cat nothing", "not-installed-anywhere", "ls | no"])
async def test_other_failures_do_not_name_the_sandbox(
    command: str, tool: Exec, call: CallContext
) -> None:
    assert "sandbox" not in (await tool.run({"command": command}, call)).for_model
