"""Lookup of processes by their command line, with waiting.

A process that was just started is a copy of its parent for a moment, and a process that was killed
does not disappear at once. The functions wait for both.
"""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DEADLINE_S = 30
_numbers = itertools.count(1)


def lasting_command() -> str:
    """Return a long-running command that no other test of any run on this machine starts."""
    return f"sleep 600.{os.getpid():07}{next(_numbers):03}"


def processes(word: str) -> list[int]:
    """Return processes whose command line contains the word, by their ids outside any sandbox."""
    data = word.replace(" ", "\0").encode()
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if data in (folder / "cmdline").read_bytes():
                results.append(int(folder.name))
    return results


def suspend(pid: int) -> None:
    """Send SIGSTOP, and wait until no thread of the process runs."""
    os.kill(pid, signal.SIGSTOP)
    late = time.monotonic() + DEADLINE_S
    while not all(map(_is_stopped, Path(f"/proc/{pid}/task").glob("*/stat"))):
        assert time.monotonic() < late, "the process does not stop"
        time.sleep(0.002)


def _is_stopped(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return True


async def runs(word: str, least: int = 1) -> bool:
    """Return whether at least this number of processes run, waiting for them for a while."""
    return await _holds(lambda: len(processes(word)) >= least)


async def has_ended(word: str) -> bool:
    """Return whether no process runs, waiting for the end for a while."""
    return await _holds(lambda: not processes(word))


async def _holds(condition: Callable[[], bool]) -> bool:
    late = time.monotonic() + DEADLINE_S
    while not (is_done := condition()) and time.monotonic() < late:
        await asyncio.sleep(0.02)
    return is_done


async def is_gone(pid: int) -> bool:
    """Return whether no process has this id, waiting for the end for a while."""
    return await _holds(lambda: not Path(f"/proc/{pid}").exists())
