"""Cleanup of processes left by a Kore that was killed along with its watcher."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from agent.security.sandbox.orphan_processes import (
    NAME,
    end_orphans,
    process_mark,
    recorded_commands,
)
from tests.processes import has_ended, lasting_command, processes, runs

ROOT = Path(__file__).parents[4]
KORE = """
import asyncio, sys
from pathlib import Path
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.unconfined import Unconfined
from agent.security.sandbox.orphan_processes import recorded_commands
from agent.tools.shell.process_group import run
async def main():
    with Unconfined().prepare(SandboxCommand(sys.argv[1], Path("/"), Path("/"))) as spawn:
        await run(spawn, 500, print)
with recorded_commands(Path(sys.argv[2])):
    asyncio.run(main())
"""


async def test_next_start_kills_orphans(tmp_path: Path) -> None:
    command = lasting_command()
    line, note = f"{command} & {command}", tmp_path / "running"
    kore = subprocess.Popen([sys.executable, "-c", KORE, line, note], cwd=ROOT)
    try:
        assert await runs(command, 2)
        end_orphans(note)
        assert len(processes(command)) == 2, "its Kore lives"
        # The watcher is the shell in the same group.
        own = os.getpgid(processes(command)[0])
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                pid = int(folder.name)
                shell = (folder / "comm").read_text() == "sh\n"
                if shell and os.getpgid(pid) == own and b"kill -9 0" in _words(folder):
                    os.kill(pid, signal.SIGKILL)
    finally:
        kore.kill()
        kore.wait()
    assert processes(command)
    assert end_orphans(tmp_path / "another's") == 0
    assert end_orphans(note) >= 2
    assert await has_ended(command)


async def test_processes_of_a_kore_that_ended_normally_survive(tmp_path: Path) -> None:
    command, note = lasting_command(), tmp_path / "running"
    line = f"setsid {command} </dev/null >/dev/null 2>&1 & until pgrep -fx '{command}'; do :; done"
    subprocess.run([sys.executable, "-c", KORE, line, note], cwd=ROOT, check=True)
    (left,) = processes(command)
    try:
        end_orphans(note)
        with recorded_commands(note):
            end_orphans(note)
        assert processes(command) == [left]
    finally:
        os.kill(left, signal.SIGKILL)


def test_kore_started_by_an_orphan_spares_itself(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    value = process_mark()[NAME].split(":")
    note = tmp_path / "running"
    note.write_text(f"{value[0]}:{gone.pid}:1")
    start = "import sys, pathlib; from agent.security.sandbox.orphan_processes import end_orphans; "
    start += "end_orphans(pathlib.Path(sys.argv[1])); print('up')"
    done = subprocess.run(
        ["sh", "-c", '"$@"; echo and its shell', "sh", sys.executable, "-c", start, note],
        cwd=ROOT, env={**os.environ, NAME: f"{value[0]}:{gone.pid}:1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "up\nand its shell\n"


def _words(folder: Path) -> bytes:
    return (folder / "cmdline").read_bytes()


def test_mark_of_another_process_table_is_ignored(tmp_path: Path) -> None:
    command = lasting_command()
    _, pid, _ = process_mark()[NAME].split(":")
    elsewhere = f"1:{pid}:1"
    (tmp_path / "running").write_text(elsewhere)
    process = subprocess.Popen(command.split(), env={NAME: elsewhere, "PATH": os.environ["PATH"]})
    try:
        end_orphans(tmp_path / "running")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
