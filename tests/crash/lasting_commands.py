"""Commands that last, and which of them are alive."""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# What was killed is gone a moment later.
_GONE_S = 5.0
_LOOK_S = 0.003


class LastingCommands:
    """`text` is a command, to be followed by the number of its job."""

    def __init__(self) -> None:
        # No other run on this machine has such commands.
        self.text = f"sleep 600.{os.getpid():07}"

    def alive(self) -> set[int]:
        """The jobs whose commands are alive, also where they only begin."""
        return set(self._numbers())

    async def outlived(self, jobs: set[int]) -> list[int]:
        """Those of the jobs that still have a command after a moment."""
        deadline = time.monotonic() + _GONE_S
        while left := jobs & self.alive():
            if time.monotonic() > deadline:
                return sorted(left)
            await asyncio.sleep(_LOOK_S)
        return []

    def _numbers(self) -> Iterator[int]:
        word = self.text.partition(" ")[2].encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                _, found, rest = (folder / "cmdline").read_bytes().partition(word)
                if found and (number := re.match(rb"\d+", rest)):
                    yield int(number.group())
