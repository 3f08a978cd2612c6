"""What a killed Kore left running, when even its watcher was killed: the next start ends it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from agent.security.sandbox.leftovers import NAME, end_leftovers, mark
from tests.processes import gone, lasting, processes, runs

ROOT = Path(__file__).parents[4]
KORE = """
import asyncio, sys
from pathlib import Path
from agent.sandbox import Job
from agent.security.sandbox.none import Unconfined
from agent.tools.group import run
async def main():
    with Unconfined().prepare(Job(sys.argv[1], Path("/"), Path("/"))) as spawn:
        await run(spawn, 500, print)
asyncio.run(main())
"""


async def test_the_next_start_ends_what_was_left(tmp_path: Path) -> None:
    command = lasting()
    kore = subprocess.Popen([sys.executable, "-c", KORE, f"{command} & {command}"], cwd=ROOT)
    try:
        assert await runs(command)
        end_leftovers()
        assert len(processes(command)) == 2, "its Kore lives"
        # The watcher is a shell of the same group that is no sleep.
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
    assert end_leftovers() >= 2
    assert await gone(command)


def _words(folder: Path) -> bytes:
    return (folder / "cmdline").read_bytes()


def test_a_mark_of_another_process_table_is_left_alone() -> None:
    command = lasting()
    _, pid, _ = mark()[NAME].split(":")
    elsewhere = f"1:{pid}:1"
    process = subprocess.Popen(command.split(), env={NAME: elsewhere, "PATH": os.environ["PATH"]})
    try:
        end_leftovers()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
