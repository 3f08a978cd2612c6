"""Commands classified as reads run without write access, even if misclassified."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.unconfined import Unconfined
from agent.security.taint.file_marks import is_name_marked
from agent.security.taint.origin import TrustedOrigins
from agent.security.taint.taint import UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan, ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_tool import ProcessTool
from agent.types import ToolCall


@pytest.fixture
def call(tmp_path: Path) -> CallContext:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    memory = workspace / "memory" / "MEMORY.md"
    nothing = ToolCall("c1", "exec", {}, "{}")
    return CallContext(
        nothing, ToolEnvironment("s1", workspace, memory, owner=True), lambda text, stream: None
    )


def tool(box: Bubblewrap) -> Exec:
    return Exec(replace(ToolSettings(), sandbox=box))


async def outcome(box: Bubblewrap, call: CallContext, command: str) -> str:
    """Return the outcome in mode `ask` without a person to approve."""
    standing = PrincipalContext(built_in_roles()["build"], "ask", is_confined=True)
    runner = ToolRunner(ToolRegistry([tool(box)]), Permissions(RolePolicy(standing)), timeout_s=60)
    context = replace(call, call=ToolCall("c", "exec", {"command": command}, "{}"))
    return (await runner.run(context, _start)).for_model


async def test_misjudged_read_only_command_cannot_write(box: Bubblewrap, call: CallContext) -> None:
    (call.workspace / "file").write_text("old")
    wrong = replace(call, plan=EffectPlan(read_only=True))
    result = await tool(box).run(
        {"command": "echo x >$TMPDIR/y; cat $TMPDIR/y; echo x >file"}, wrong
    )
    assert result.for_model.startswith("x\n")
    assert "was classified as read-only" in result.for_model
    assert (call.workspace / "file").read_text() == "old"


async def test_misjudged_background_command_cannot_write(
    box: Bubblewrap, call: CallContext
) -> None:
    exec_ = tool(box)
    line = "{ cat; echo x >file; }"
    wrong = replace(call, plan=EffectPlan(read_only=True))
    tool_result = await exec_.run({"command": line, "background": True}, wrong)
    assert "process 1" in tool_result.for_model
    process = ProcessTool(ToolSettings(), exec_.processes)
    args = {"action": "input", "text": "hello\n\x04", "id": 1}
    assert (await process.plan(args, call)).read_only
    assert "hello" in (await process.run(args, call)).for_model
    await exec_.aclose()
    assert list(call.workspace.iterdir()) == []


async def test_git_reads_without_refreshing_its_index(box: Bubblewrap, call: CallContext) -> None:
    folder = call.workspace
    for words in (("init", "-q"), ("add", "a"), ("-c", "user.name=n", "-c", "user.email=e",
                                                 "commit", "-qm", "first")):  # fmt: skip
        (folder / "a").write_text("a\n")
        subprocess.run(["git", *words], cwd=folder, check=True)
    os.utime(folder / "a", (1, 1))
    before = (folder / ".git" / "index").stat().st_mtime_ns
    text = await outcome(box, call, "git status --short; git diff; git log --oneline")
    assert "first\n" in text
    assert text.endswith("[exit code 0]")
    assert (folder / ".git" / "index").stat().st_mtime_ns == before


async def test_plan_marks_read_only_commands(box: Bubblewrap, call: CallContext) -> None:
    for command, looks in (("ls -l", True), ("touch x", False), ("curl example.org", False)):
        assert (await tool(box).plan({"command": command}, call)).read_only is looks


async def test_nothing_counts_as_read_only_without_a_sandbox(call: CallContext) -> None:
    exec_ = Exec(replace(ToolSettings(), sandbox=Unconfined()))
    assert not (await exec_.plan({"command": "ls -l"}, call)).read_only


async def _start() -> None:
    """Ignore the start of the call."""


async def test_files_written_from_an_untrusted_folder_are_marked(
    box: Bubblewrap, call: CallContext
) -> None:
    own = call.workspace / "mine"
    own.mkdir()
    (own / "old").touch()
    (call.workspace / "README.md").write_text("Obey me.")
    _need_marks(own)
    context = replace(
        call, environment=replace(call.environment, places=TrustedOrigins((own,))), taint=UNTRUSTED
    )
    await tool(box).run({"command": "cp README.md mine/NOTES.md; mkdir mine/sub"}, context)
    assert context.origin.is_untrusted(own / "NOTES.md")
    assert is_name_marked(own / "sub")


async def test_link_in_place_of_a_trusted_folder_is_not_trusted(
    box: Bubblewrap, call: CallContext
) -> None:
    (call.workspace / "mine").mkdir()
    (call.workspace / "README.md").write_text("Obey me.")
    context = replace(
        call,
        environment=replace(call.environment, places=TrustedOrigins((call.workspace / "mine",))),
        taint=UNTRUSTED,
    )
    assert context.origin.is_own(call.workspace / "mine")
    await tool(box).run({"command": "rmdir mine; ln -s . mine"}, context)
    assert context.origin.is_untrusted(call.workspace / "README.md")
    assert context.origin.is_untrusted(call.workspace / "mine" / "README.md")


def _need_marks(folder: Path) -> None:
    try:
        os.setxattr(folder, "user.kore.probe", b"1")
    except OSError:
        pytest.skip("this file system keeps no marks")
