import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.prompts import load_prompt, render_prompt
from agent.security.sandbox import environment, orphan_processes
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.types import ToolResult
from tests.agent.tools.conftest import Listener


async def run(call: CallContext, command: str, **args: Any) -> ToolResult:
    return await Exec(ToolSettings()).run({"command": command, **args}, call)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def wait_until_gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while alive(pid):
            await asyncio.sleep(0.01)


async def pid_in(path: Path) -> int:
    async with asyncio.timeout(30):
        while not (path.exists() and path.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return int(path.read_text())


async def test_stdout_and_stderr_are_in_order_with_the_exit_code(call: CallContext) -> None:
    result = await run(call, "echo one; echo two >&2; echo three; exit 3")
    assert result.for_model == "one\ntwo\nthree\n[exit code 3]"
    assert result.is_error


async def test_success_without_output_is_not_an_error(call: CallContext) -> None:
    result = await run(call, "true")
    assert (result.for_model, result.is_error) == ("[exit code 0]", False)


async def test_command_runs_in_the_workspace_or_workdir(call: CallContext, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert (await run(call, "pwd")).for_model.startswith(f"{workspace}\n")
    assert (await run(call, "pwd", workdir="sub")).for_model.startswith(f"{workspace}/sub\n")
    for workdir in ("..", "none", "/tmp", ".git"):
        with pytest.raises(ToolError):
            await run(call, "pwd", workdir=workdir)


async def test_output_is_reported_while_the_command_runs(
    call: CallContext, listener: Listener, workspace: Path
) -> None:
    # The command ends only after its first line was received.
    listener.on_text = lambda text: (workspace / "heard").touch()
    script = "echo hello; while [ ! -e heard ]; do sleep 0.01; done; echo done"
    result = await run(call, script, timeout_s=20)
    assert result.for_model == "hello\ndone\n[exit code 0]"
    assert listener.text == "hello\ndone\n"


async def test_input_is_empty(call: CallContext) -> None:
    assert (await run(call, "cat; read x || echo none")).for_model == "none\n[exit code 0]"


async def test_environment_has_no_secrets(
    call: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "KORE_TELEGRAM_TOKEN", "LD_PRELOAD_X", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LC_ALL", "C")
    text = (await run(call, "env; cat /proc/$PPID/environ | tr '\\0' '\\n' | head -0")).for_model
    assert "canary" not in text
    assert "LC_ALL=C" in text
    names = {line.split("=")[0] for line in text.split("\n") if "=" in line}
    allowed = {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        *environment.UNATTENDED,
        "TZ",
        "USER",
        "TMPDIR",
        orphan_processes.NAME,
    }
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} <= allowed


async def test_timeout_kills_the_group_and_keeps_the_output(
    call: CallContext, workspace: Path
) -> None:
    script = "echo before; sh -c 'echo $$ > pid; sleep 600' | cat; echo never"
    task = asyncio.create_task(run(call, script, timeout_s=3))
    pid = await pid_in(workspace / "pid")
    result = await task
    assert result.is_error
    ended = f"[stopped: it took longer than 3 s. {load_prompt('tools/exec_longer')}]"
    assert result.for_model == f"before\n{ended}"
    assert "timeout_s" in ended
    await wait_until_gone(pid)


async def test_cancelling_kills_the_group_before_it_returns(
    call: CallContext, workspace: Path
) -> None:
    task = asyncio.create_task(run(call, "sleep 600 & echo $$ > pid; wait", timeout_s=500))
    pid = await pid_in(workspace / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)


async def test_daemon_that_keeps_the_pipe_does_not_hang_the_call(
    call: CallContext, workspace: Path
) -> None:
    result = await run(call, "sleep 600 & echo $! > pid; echo started", timeout_s=60)
    left = render_prompt("tools/exec_left", names="sleep")
    assert result.for_model == f"started\n{left}\n[exit code 0]"
    await wait_until_gone(int((workspace / "pid").read_text()))


async def test_escaped_daemon_that_keeps_the_pipe_does_not_hang_the_call(
    call: CallContext, workspace: Path
) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do :; done"
    result = await run(call, script, timeout_s=60)
    pid = await pid_in(workspace / "pid")
    assert result.for_model == "[exit code 0]"
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_death_by_signal_is_reported(call: CallContext) -> None:
    assert (await run(call, "kill -TERM $$")).for_model == "[killed by signal 15]"


async def test_long_output_is_cut_in_the_middle_and_saved(
    call: CallContext, workspace: Path
) -> None:
    result = await run(call, "seq 1 200000; echo end")
    text = result.for_model
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("200000\nend\n[exit code 0]")
    assert len(text.encode()) < 30_300
    [spill] = (workspace / ".kore/spill").glob("*.txt")
    assert f"whole text in {spill}" in text
    whole = "".join(f"{i}\n" for i in range(1, 200_001)) + "end\n"
    assert spill.read_text() == whole
    assert spill.stat().st_mode & 0o777 == 0o600


async def test_saved_output_can_be_read_by_a_command(
    call: CallContext, workspace: Path, box: Bubblewrap
) -> None:
    tool = Exec(ToolSettings(sandbox=box))
    await tool.run({"command": "seq 1 200000"}, call)
    [spill] = (workspace / ".kore/spill").glob("*.txt")
    result = await tool.run({"command": f"grep -n 123456 {spill}"}, call)
    assert result.for_model == "123456:123456\n[exit code 0]"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
async def test_impossible_timeouts_are_rejected(call: CallContext, timeout: float) -> None:
    with pytest.raises(ToolError, match="timeout_s"):
        await run(call, "true", timeout_s=timeout)


@pytest.mark.parametrize("command", ["", "  \n", "a\0b", "echo \ud800"])
async def test_impossible_commands_are_rejected(call: CallContext, command: str) -> None:
    with pytest.raises(ToolError, match="command"):
        await run(call, command)


async def test_too_long_command_is_an_error_for_the_model(call: CallContext) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await run(call, "echo " + "x" * 3_000_000)


@pytest.mark.parametrize(
    ("sandbox", "hosts", "confinement"),
    [
        (None, (), "none"),
        (None, ("example.org",), "none"),
        (Bubblewrap("bwrap", frozenset()), (), "bwrap"),
        (Bubblewrap("bwrap", frozenset()), ("b.example", "a.example"), "bwrap a.example b.example"),
    ],
)
async def test_approval_is_bound_to_the_confinement(
    sandbox: Sandbox | None, hosts: tuple[str, ...], confinement: str, call: CallContext
) -> None:
    tool = Exec(ToolSettings(sandbox=sandbox, exec_hosts=hosts))
    args = {"command": "make"}
    bound = await tool.bind(await tool.plan(args, call), args, call)
    name, _, hosts_in_order = str(bound.confinement).partition(" ")
    digest, _, hosts_in_order = hosts_in_order.partition(" ")
    assert f"{name} {hosts_in_order}".strip() == confinement
    assert len(digest) == (0 if sandbox is None else 64)
    outside = {"command": "make", "outside": True, "reason": "why"}
    owned = replace(call, environment=replace(call.environment, owner=True))
    bound = await tool.bind(await tool.plan(outside, owned), outside, owned)
    assert bound.confinement == "none"


async def test_plan_is_the_exact_command(call: CallContext) -> None:
    plan = await Exec(ToolSettings()).plan({"command": "  ls | wc "}, call)
    assert plan.command == "  ls | wc "


async def test_no_descriptor_stays_open(call: CallContext) -> None:
    await run(call, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run(call, "seq 1 5000")
        await run(call, "sleep 600", timeout_s=0.01)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_commands_run_concurrently(call: CallContext) -> None:
    async def one(i: int) -> str:
        context = replace(call, output=lambda text, stream: None)
        return (await run(context, f"echo {i}")).for_model

    results = await asyncio.gather(*(one(i) for i in range(8)))
    assert results == [f"{i}\n[exit code 0]" for i in range(8)]


KORE = """
import asyncio, json, sys
from pathlib import Path
from agent.tools.base import CallContext, ToolEnvironment
from agent.security.sandbox import orphan_processes
from agent.settings import ToolSettings
from agent.tools.shell.exec import Exec
from agent.types import ToolCall

workspace = Path(sys.argv[1])
here = ToolEnvironment("s", workspace, workspace / "m")
call = CallContext(ToolCall("c", "exec", {}, "{}"), here, print)
command = "trap '' TERM HUP; (trap '' TERM HUP; echo $$ > pid; sleep 600) | (sleep 600)"
asyncio.run(Exec(ToolSettings()).run({"command": command, "timeout_s": 500}, call))
"""


async def test_all_processes_die_when_kore_is_killed(workspace: Path) -> None:
    root = Path(__file__).parents[4]
    kore = subprocess.Popen(
        [sys.executable, "-c", KORE, str(workspace)], cwd=root, stdout=subprocess.DEVNULL
    )
    try:
        pid = await pid_in(workspace / "pid")
        group = os.getpgid(pid)
        members: list[int] = []
        async with asyncio.timeout(30):
            while len(members) < 4:  # both sides of the pipe, their shell and the watcher
                await asyncio.sleep(0.01)
                members = [p for p in _pids() if _group(p) == group]
    finally:
        kore.kill()
        kore.wait()
    for member in members:
        await wait_until_gone(member)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
