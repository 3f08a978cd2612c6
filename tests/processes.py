"""Which processes of this machine run what, and waiting for them.

A process that was started is not yet what it will be: for a moment it is a copy of its parent. One
that was killed is not gone at once. Both are waited for.
"""

import asyncio
import itertools
import os
import time
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


async def runs(word: str) -> bool:
    """Whether some process does, after a while."""
    return await _holds(word, True)


async def has_ended(word: str) -> bool:
    """Whether no process does any more, after a while."""
    return await _holds(word, False)


async def _holds(word: str, wanted: bool) -> bool:
    late = time.monotonic() + DEADLINE_S
    while (held := bool(processes(word)) is wanted) is False and time.monotonic() < late:
        await asyncio.sleep(0.02)
    return held
