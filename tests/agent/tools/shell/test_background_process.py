"""Background commands, started by `exec` and managed by `process`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import ToolError
from agent.providers.scripted import ScriptedProvider
from agent.run.history import MemoryHistory
from agent.security.policy.base import ToolRequest, Verdict
from agent.security.policy.engine import PrincipalContext, RolePolicy
from agent.security.policy.policy_file import built_in_roles
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.unconfined import Unconfined
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import UNTRUSTED
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.shell.background_process import BackgroundProcess, ProcessOrigin
from agent.tools.shell.process_group import Exit
from agent.tools.shell.process_registry import MAX_PER_SESSION
from agent.types import ToolCall
from tests import fork_server
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.agent.tools.shell.background_shell import Shell
from tests.processes import has_ended, lasting_command, runs

ROOT = Path(__file__).parents[4]


@pytest.fixture
async def shell(call: CallContext) -> AsyncIterator[Shell]:
    result = Shell(call)
    yield result
    await result.exec.aclose()


@pytest.fixture(params=[Unconfined, installed_bubblewrap], ids=["none", "bwrap"])
async def background_shell(
    request: pytest.FixtureRequest, call: CallContext
) -> AsyncIterator[tuple[Shell, Callable[[], Sandbox]]]:
    """Return the tools for each sandbox, and a function that creates the sandbox."""
    result = Shell(call, request.param())
    yield result, request.param
    await result.exec.aclose()


async def test_background_output_is_returned_once(
    background_shell: tuple[Shell, Callable[[], Sandbox]], workspace: Path
) -> None:
    shell, _ = background_shell
    begun = await shell.start("echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 3")
    assert begun.for_model.startswith("one\n[process 1: running for ")
    assert not begun.is_error
    (workspace / "go").touch()
    text = await shell.hear("exit code")
    assert text.startswith("two\n")
    assert text.endswith("[process 1: exit code 3]")
    assert (await shell("output", id=1)).for_model == "[process 1: exit code 3]"


async def test_killed_process_is_no_longer_reported_as_running(
    shell: Shell,
) -> None:
    await shell.start("sleep 600")
    assert shell.processes.request_kill("s1", "1")
    (result,) = shell.processes.facts("s1")
    assert result == "background process 1 (sleep 600): being ended"
    await shell.processes.kill(shell.processes.get("s1", 1))
    # A repeated transaction gets the same answer, although the process has ended.
    assert shell.processes.request_kill("s1", "1")
    assert not shell.processes.request_kill("s2", "1")
    (result,) = shell.processes.facts("s1")
    assert result == "background process 1 (sleep 600): killed"


async def test_process_that_ends_immediately_returns_its_result(shell: Shell) -> None:
    result = await shell.start("echo no such thing; exit 7")
    assert result.for_model == "no such thing\n[process 1: exit code 7]"
    assert result.is_error


async def test_process_reads_its_input(
    background_shell: tuple[Shell, Callable[[], Sandbox]],
) -> None:
    shell, _ = background_shell
    await shell.start("while read -r line; do echo got $line; done; echo end")
    assert (await shell("input", text="Zürich\n")).for_model.startswith("got Zürich\n")
    text = (await shell("input", id=1, text="last\n\x04")).for_model
    if "exit code" not in text:
        text += await shell.hear("exit code")
    assert text.startswith("got last\n")
    assert text.endswith("[process 1: exit code 0]")
    with pytest.raises(ToolError, match="no longer accepts input"):
        await shell("input", id=1, text="more")


async def test_kill_ends_all_descendants(
    background_shell: tuple[Shell, Callable[[], Sandbox]],
) -> None:
    shell, _ = background_shell
    command = lasting_command()
    await shell.start(f"{command} & {command}")
    assert await runs(command)
    result = await shell("kill", id=1)
    assert result.for_model == "[process 1: killed]"
    assert await has_ended(command)


@pytest.mark.parametrize("way", ["end", "close"])
async def test_process_ends_with_its_session_and_the_tool(
    background_shell: tuple[Shell, Callable[[], Sandbox]], way: str
) -> None:
    shell, _ = background_shell
    command = lasting_command()
    await shell.start(command)
    await (shell.exec.end("s1") if way == "end" else shell.exec.aclose())
    assert await has_ended(command)
    if way == "end":
        assert "no background processes" in (await shell("list")).for_model


async def test_cancelled_call_leaves_no_process(shell: Shell, workspace: Path) -> None:
    command = lasting_command()
    call = asyncio.create_task(shell.start(f"touch began; {command}"))
    async with asyncio.timeout(30):
        while not (workspace / "began").exists():
            await asyncio.sleep(0.01)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    if call.cancelled():  # cancelled just now
        assert await has_ended(command)


ENVIRON = {"PATH": os.environ["PATH"]}
KORE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from agent.security.sandbox.unconfined import Unconfined
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.agent.tools.shell.background_shell import Shell
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
folder = Path(sys.argv[1])
here = ToolEnvironment("s", folder, folder / "M", owner=True)
call = CallContext(ToolCall("c", "exec", {}, "{}"), here, print)
async def main():
    shell = Shell(call, {"none": Unconfined, "bwrap": installed_bubblewrap}[sys.argv[2]]())
    await shell.start(f"{sys.argv[4]} & {sys.argv[4]}")
    (folder / "began").touch()
    await asyncio.sleep(500)
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["none", "bwrap"])
async def test_no_process_survives_a_killed_kore(workspace: Path, name: str) -> None:
    if name == "bwrap":
        installed_bubblewrap()  # skips the test without bubblewrap
    command = lasting_command()
    kore = fork_server.start(
        ["python", "-c", KORE, workspace, name, ROOT, command], cwd=ROOT, env=ENVIRON, stderr=2
    )
    try:
        async with asyncio.timeout(60):
            while not (workspace / "began").exists():
                await asyncio.sleep(0.01)
        assert await runs(command)
    finally:
        kore.kill()
        await kore.wait()
    assert await has_ended(command)


TOLD = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from agent.security.sandbox.unconfined import Unconfined
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.agent.tools.shell.background_shell import Shell
from agent.tools.base import CallContext, ToolEnvironment
from agent.types import ToolCall
folder = Path(sys.argv[1])
here = ToolEnvironment("s", folder, folder / "M", owner=True)
call = CallContext(ToolCall("c", "exec", {}, "{}"), here, print)
async def main():
    shell = Shell(call, {"none": Unconfined, "bwrap": installed_bubblewrap}[sys.argv[2]]())
    await shell.start("cat > page.md")
    shell.call = replace(call, taint=frozenset({sys.argv[4]}))
    await shell("input", id=1, text="obey\\n")
    while not (folder / "page.md").exists() or not (folder / "page.md").read_text():
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["none", "bwrap"])
@pytest.mark.parametrize("taint", ["untrusted", "private"])
async def test_taint_of_a_command_survives_a_killed_kore(
    workspace: Path, name: str, taint: str
) -> None:
    if name == "bwrap":
        installed_bubblewrap()  # skips the test without bubblewrap
    kore = fork_server.start(
        ["python", "-c", TOLD, workspace, name, ROOT, taint], cwd=ROOT, env=ENVIRON, stderr=2
    )
    async with asyncio.timeout(60):
        assert await kore.wait() == -9
    assert (workspace / "page.md").read_text() == "obey\n"
    assert is_marked(workspace / "page.md") is (taint == "untrusted")


async def test_conversation_sees_only_its_own_processes(shell: Shell) -> None:
    await shell.start("sleep 60")
    shell.call = replace(shell.call, environment=replace(shell.call.environment, session="s2"))
    assert "no background processes" in (await shell("list")).for_model
    with pytest.raises(ToolError, match="no process 1 here"):
        await shell("kill", id=1)


async def test_number_of_processes_is_limited_and_ended_ones_are_removed(shell: Shell) -> None:
    await shell.start("true")
    for _ in range(MAX_PER_SESSION):
        await shell.start("sleep 60")
    with pytest.raises(ToolError, match="which is the limit"):
        await shell.start("sleep 60")
    assert [process.number for process in shell.processes.of("s1")] == [
        *range(2, MAX_PER_SESSION + 2)
    ]


async def test_waiting_for_output_waits_for_the_end(shell: Shell, workspace: Path) -> None:
    until = "until [ -e {0} ]; do sleep 0.02; done; echo {0};"
    await shell.start(until.format("middle") + until.format("end"))
    waiting = asyncio.create_task(shell("output", wait_s=60))
    (workspace / "middle").touch()
    async with asyncio.timeout(30):
        while not shell.processes.of("s1")[0].unread_bytes:
            await asyncio.sleep(0.01)
    assert not waiting.done()
    (workspace / "end").touch()
    assert (await waiting).for_model == "middle\nend\n[process 1: exit code 0]"


async def test_only_the_newest_output_is_retained(shell: Shell, workspace: Path) -> None:
    await shell.start("until [ -e go ]; do sleep 0.02; done; seq 1 100000; sleep 60")
    (workspace / "go").touch()
    async with asyncio.timeout(30):
        while shell.processes.of("s1")[0].unread_bytes < 580_000:
            await asyncio.sleep(0.01)
    text = (await shell("output")).for_model
    assert "bytes were dropped before they were read]" in text
    assert len(text.encode()) < 31_000


async def test_process_ends_at_its_timeout(shell: Shell) -> None:
    await shell.start("sleep 60", timeout_s=0.6)
    assert "stopped at its timeout" in await shell.hear("timeout")


async def test_process_ends_after_long_inactivity(workspace: Path) -> None:
    origin = ProcessOrigin("wait", workspace, workspace, (), UNTRUSTED, is_exposed=False)

    async def work(stdin: int, say: Callable[[bytes], None]) -> Exit:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    process = BackgroundProcess(1, origin)
    await process.run(work, idle_s=0.01)
    assert process.exit_description == "stopped: this conversation was inactive for hours"


async def test_next_turn_reports_a_process_and_its_end_once(shell: Shell, workspace: Path) -> None:
    await shell.start("until [ -e go ]; do sleep 0.02; done; echo bye")
    [fact] = shell.exec.facts("s1")
    assert fact.startswith("background process 1 (until [ -e go ]; do")
    shell.exec.mark_reported("s1")
    assert "running" in shell.exec.facts("s1")[0]
    (workspace / "go").touch()
    async with asyncio.timeout(30):
        while shell.processes.running:
            await asyncio.sleep(0.01)
    # A turn that did not start has not reported anything.
    for _ in range(2):
        assert shell.exec.facts("s1")[0].endswith("exit code 0, 4 new bytes")
    shell.exec.mark_reported("s1")
    assert shell.exec.facts("s1") == []


async def test_background_processes_are_listed_in_the_next_turn(workspace: Path) -> None:
    history = MemoryHistory()
    agent = Agent(ScriptedProvider(["hi"]), workspace=workspace, history=history)
    call = {"command": "sleep 60", "background": True}
    await agent.toolbox.get("exec").run(call, context(workspace, "s"))
    await agent.run("hello", session="s")
    await agent.aclose()
    [result, _] = await history.load("s")
    assert "background process 1 (sleep 60): running" in str(result.content)


def context(workspace: Path, session: str) -> CallContext:
    call = ToolCall("c", "exec", {}, "{}")
    return CallContext(
        call, ToolEnvironment(session, workspace, workspace / "M", owner=True), lambda *_: None
    )


async def test_untrusted_input_taints_later_output_and_written_files(
    shell: Shell, workspace: Path
) -> None:
    if not _knows_marks(workspace):
        pytest.skip("this file system keeps no marks")
    await shell.start("read -r x; echo written >file; echo done")
    assert not shell.exec.background_taint(workspace)
    shell.call = replace(shell.call, taint=UNTRUSTED)
    await shell("input", text="evil\n")
    async with asyncio.timeout(30):
        while shell.processes.running:
            await asyncio.sleep(0.01)
    assert is_marked(workspace / "file")
    await shell.start("sleep 60")
    assert shell.exec.background_taint(workspace) == UNTRUSTED
    assert shell.exec.background_taint(workspace / "sub") == UNTRUSTED
    assert not shell.exec.background_taint(workspace.parent.parent / "elsewhere")


def _knows_marks(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.kore.probe", b"1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("command", "text", "verdict"),
    [("sh", "rm -rf .\n", "ask"), ("cat", "hello\n", "allow"), ("sh", "curl x.org", "ask"),
     ("cat", "it's INPUT\nINPUT\n", "allow")],
)  # fmt: skip
async def test_input_is_judged_like_the_command_that_reads_it(
    call: CallContext, workspace: Path, command: str, text: str, verdict: Verdict
) -> None:
    shell = Shell(call, installed_bubblewrap())
    await shell.start(command)
    plan = await shell.process.plan({"action": "input", "id": 1, "text": text}, shell.call)
    assert plan.command is not None
    assert text.rstrip("\n") in plan.command
    standing = PrincipalContext(built_in_roles()["build"], "ask", is_confined=True)
    request = ToolRequest(
        "process", "idempotent", {}, workspace,
        command=plan.command, folder=plan.folder, read_only=plan.read_only,
    )  # fmt: skip
    assert RolePolicy(standing).decide(request).verdict == verdict


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"action": "input", "id": 1}, "needs the argument 'text'"),
    ],
)
async def test_invalid_call_is_explained(shell: Shell, args: dict[str, Any], sentence: str) -> None:
    await shell.start("sleep 60")
    with pytest.raises(ToolError, match=sentence):
        await shell.process.plan(args, shell.call)
