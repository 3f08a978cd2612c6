"""Shared resource limits of commands, and the messages after they are exceeded."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.sandbox.base import Limits
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from agent.tools.shell.process_registry import ProcessRegistry
from agent.tools.shell.resource_limits import SPARE_BYTES, ResourceLimits
from tests.deep_folders import remove
from tests.processes import has_ended, lasting_command, processes, runs

# Writes to each page, so that the memory is used and not only reserved.
_TAKE = "data = bytearray(%d); data[::4096] = b'x' * len(data[::4096])"


def taking(size: int, then: str) -> str:
    """Return a command that allocates memory and then runs another command."""
    return f'{sys.executable} -c "import os; {_TAKE % size}; os.system({then!r})"'


def exec_within(**limits: int) -> Exec:
    return Exec(replace(ToolSettings(), limits=Limits(**limits), exec_timeout_s=60))


async def test_commands_of_a_session_share_their_memory(call: CallContext) -> None:
    tool = exec_within(session_bytes=300_000_000)
    small, large = lasting_command(), lasting_command()
    first = asyncio.create_task(tool.run({"command": taking(120_000_000, small)}, call))
    assert await runs(small)
    # Each command alone is within the limit.
    text = (await tool.run({"command": taking(250_000_000, large)}, call)).for_model
    assert "used more than 300 MB of memory together" in text
    assert "security.exec_session_memory_mb" in text
    assert await has_ended(large)
    assert processes(small)
    first.cancel()
    await asyncio.wait({first})


async def test_sessions_have_separate_memory_limits(call: CallContext) -> None:
    tool = exec_within(session_bytes=300_000_000)
    lasts = lasting_command()
    other = replace(call, environment=replace(call.environment, session="another"))
    first = asyncio.create_task(tool.run({"command": taking(200_000_000, lasts)}, other))
    assert await runs(lasts)
    text = (await tool.run({"command": taking(200_000_000, "sleep 1.5")}, call)).for_model
    assert text == "[exit code 0]"
    assert not first.done()
    first.cancel()
    await asyncio.wait({first})


async def test_memory_shared_by_a_fork_counts_once(call: CallContext) -> None:
    tool = exec_within(session_bytes=300_000_000)
    # Processes that are left when the first one ends are reported.
    lasts = (
        "[os.fork() or time.sleep(1.5) or os._exit(0) for _ in 'abc']; [os.wait() for _ in 'abc']"
    )
    code = f"import os, time; {_TAKE % 120_000_000}; {lasts}"
    text = (await tool.run({"command": f'{sys.executable} -c "{code}"'}, call)).for_model
    assert text == "[exit code 0]"


async def test_written_bytes_are_limited(call: CallContext, workspace: Path) -> None:
    tool = exec_within(disk_bytes=20_000_000)
    pieces = "n=0; while :; do n=$((n+1)); head -c 5000000 /dev/urandom >f$n; sync f$n; done"
    text = (await tool.run({"command": pieces}, call)).for_model
    assert "it wrote more than 20 MB to the workspace" in text
    assert "security.exec_disk_mb" in text
    assert len(os.listdir(workspace)) > 4


async def test_file_below_too_many_folders_counts(call: CallContext, workspace: Path) -> None:
    tool = exec_within(disk_bytes=20_000_000)
    code = "import os; [(os.mkdir('n' * 50), os.chdir('n' * 50)) for _ in range(120)]; os.system"
    fill = "head -c 60000000 /dev/urandom >f; sync f; sleep 5"
    try:
        result = await tool.run({"command": f'{sys.executable} -c "{code}({fill!r})"'}, call)
        assert "it wrote more than 20 MB to the workspace" in result.for_model
    finally:
        remove(workspace / ("n" * 50))


async def test_closed_folder_counts(call: CallContext) -> None:
    """Root can read every folder; for other users Kore opens the folder to measure it."""
    fill = "mkdir box; chmod 0311 box; head -c 60000000 /dev/urandom >box/f; sync box/f; sleep 5"
    text = (await exec_within(disk_bytes=20_000_000).run({"command": fill}, call)).for_model
    assert "it wrote more than 20 MB to the workspace" in text


async def test_command_that_fills_the_disk_is_ended(call: CallContext) -> None:
    tool = exec_within(free_bytes=2**60)
    # A deleted open file uses space as well.
    hidden = "exec 3>f; rm f; head -c 60000000 /dev/urandom >&3; sync; sleep 100"
    text = (await tool.run({"command": hidden}, call)).for_model
    assert "of disk space is free" in text
    assert "security.exec_disk_free_mb" in text


@pytest.mark.parametrize(
    ("written_bytes", "is_ended"), [(0, False), (SPARE_BYTES, False), (SPARE_BYTES + 1, True)]
)
async def test_command_can_delete_files_on_a_full_disk(
    written_bytes: int, is_ended: bool, call: CallContext, workspace: Path
) -> None:
    """Free space is simulated, because other programs write to a real disk."""
    (workspace / "large").touch()
    looks = 0

    def free_bytes(folder: Path) -> int:
        nonlocal looks
        looks += 1
        return 100_000_000 - (written_bytes if looks > 1 else 0)

    settings = replace(ToolSettings(), limits=Limits(free_bytes=2**40), exec_timeout_s=60)
    tool = Exec(settings, processes=ProcessRegistry(meters=ResourceLimits(free_bytes)))
    end = "while [ ! -e done ]; do sleep 0.01; done"
    running = asyncio.create_task(tool.run({"command": f"rm large; {end}"}, call))
    async with asyncio.timeout(30):
        while looks < 4 and not running.done():
            await asyncio.sleep(0.01)
    (workspace / "done").touch()
    text = (await running).for_model
    assert ("of disk space is free" in text) is is_ended
    assert (text == "[exit code 0]") is not is_ended


async def test_background_process_reports_the_exceeded_limit(call: CallContext) -> None:
    tool = exec_within(session_bytes=100_000_000)
    lasts = lasting_command()
    await tool.run({"command": taking(200_000_000, lasts), "background": True}, call)
    assert await has_ended(lasts)
    async with asyncio.timeout(30):
        while (process := tool.processes.of(call.session)[0]).exit_description is None:
            await asyncio.sleep(0.01)
    assert "100 MB of memory together" in process.exit_description
    await tool.aclose()


async def test_clock_set_back_hides_no_written_bytes(
    call: CallContext, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = exec_within(disk_bytes=20_000_000)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    pieces = "touch begun; n=0; while :; do n=$((n+1)); head -c 5000000 /dev/urandom >f$n; sync f$n"
    # The command ends without a limit, so that a failing meter does not block the test.
    running = asyncio.create_task(
        tool.run({"command": f"{pieces}; [ $n = 60 ] && break; done"}, call)
    )
    while not (workspace / "begun").exists():
        await asyncio.sleep(0.01)
    monkeypatch.undo()
    text = (await running).for_model
    assert "it wrote more than 20 MB to the workspace" in text
