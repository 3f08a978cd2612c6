"""Which processes of this machine run what, and waiting for them.

A process that was started is not yet what it will be: for a moment it is a copy of its parent. One
that was killed is not gone at once. Both are waited for.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DEADLINE_S = 30
_numbers = itertools.count(1)


def lasting_command() -> str:
    """A command that lasts, and that no other test of any run on this machine starts."""
    return f"sleep 600.{os.getpid():07}{next(_numbers):03}"


def processes(word: str) -> list[int]:
    """Whose command line holds this; in a sandbox they have other numbers than outside."""
    said = word.replace(" ", "\0").encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if said in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def runs(word: str, least: int = 1) -> bool:
    """Whether so many processes do, after a while."""
    return await _holds(lambda: len(processes(word)) >= least)


async def has_ended(word: str) -> bool:
    """Whether no process does any more, after a while."""
    return await _holds(lambda: not processes(word))


async def _holds(condition: Callable[[], bool]) -> bool:
    late = time.monotonic() + DEADLINE_S
    while not (held := condition()) and time.monotonic() < late:
        await asyncio.sleep(0.02)
    return held


async def is_gone(pid: int) -> bool:
    """Return whether there is no process of this number any more, after a while."""
    return await _holds(lambda: not Path(f"/proc/{pid}").exists())
