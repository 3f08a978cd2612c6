"""Long-running commands, and detection of commands that are still alive."""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# A killed process disappears after a moment.
_GONE_S = 5.0
_POLL_INTERVAL_S = 0.003


class LastingCommands:
    """Long-running commands; append a job's number to `text` to get its command."""

    def __init__(self) -> None:
        # Unique among the runs on this machine.
        self.text = f"sleep 600.{os.getpid():07}"

    def alive(self) -> set[int]:
        """Return the jobs whose commands are alive, including commands that are just starting."""
        return set(self._numbers())

    async def outlived(self, jobs: set[int]) -> list[int]:
        """Return the given jobs whose command is still alive after a moment."""
        deadline = time.monotonic() + _GONE_S
        while left := jobs & self.alive():
            if time.monotonic() > deadline:
                return sorted(left)
            await asyncio.sleep(_POLL_INTERVAL_S)
        return []

    def _numbers(self) -> Iterator[int]:
        word = self.text.partition(" ")[2].encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                _, result, rest = (folder / "cmdline").read_bytes().partition(word)
                if result and (number := re.match(rb"\d+", rest)):
                    yield int(number.group())
