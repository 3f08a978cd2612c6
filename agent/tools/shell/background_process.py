"""One command in the background: what it has said, what it is told, and how it ended."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.security.taint.taint import UNTRUSTED
from agent.tools.base import CallContext
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.shell.process_group import Exit
from agent.types import Taint, ToolResult


class RingBuffer:
    """Keeps the newest `limit_bytes`; positions count from the beginning of the output."""

    def __init__(self, limit_bytes: int) -> None:
        self.total_bytes = 0
        self._limit = limit_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._data += data
        # Half as much again before it is cut: not every byte moves all the others.
        if len(self._data) > self._limit * 3 // 2:
            del self._data[: -self._limit]

    def since(self, position: int) -> tuple[bytes, int]:
        """What came behind a position, and how many bytes of it are gone."""
        data = bytes(self._data[-self._limit :])
        first = self.total_bytes - len(data)
        return data[max(0, position - first) :], max(0, first - position)


BUFFER_BYTES = 200_000

# A process ends when nobody has written in its conversation for this long.
IDLE_S = 12 * 3600.0

WRITE_S = 5.0

_TITLE_CHARS = 60

# Runs the command with this descriptor as its standard input.
Work = Callable[[int, Callable[[bytes], None]], Awaitable[Exit]]


@frozen
class ProcessOrigin:
    """What was started where: whom it can reach, and what its output brings into a session.

    `is_exposed` says that it knew strangers' words from the start, `read_only` that it can write
    nothing down.
    """

    command: str
    folder: Path
    workspace: Path
    hosts: tuple[str, ...]
    taint: frozenset[Taint]
    is_exposed: bool
    read_only: bool = False


class BackgroundProcess:
    """A process and its last output. `run` lives as long as it does; `ended` says how it ended.

    `ending`: somebody has asked for its end, which takes a moment. `news` says that nobody was
    told of its end (`reported`: it is being told), `failure` why it could not be started.
    """

    def __init__(self, number: int, origin: ProcessOrigin) -> None:
        self.number = number
        self.origin = origin
        self.ended: str | None = None
        self.failure: str | None = None
        self.succeeded = True
        self.ending = self.news = self.reported = False
        self.began = time.monotonic()
        self._is_exposed = origin.is_exposed
        self._ring = RingBuffer(BUFFER_BYTES)
        self._stirred = asyncio.Event()
        self._idle: asyncio.Timeout | None = None
        self._stdin: int | None = None
        self._full: asyncio.Event | None = None
        self._looked_at = 0

    @property
    def title(self) -> str:
        line = " ".join(self.origin.command.split())
        return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"

    @property
    def state(self) -> str:
        """How it is, in words."""
        if self.ending and self.ended is None:
            return "being ended"
        return self.ended or f"running for {time.monotonic() - self.began:.1f} s"

    @property
    def is_exposed(self) -> bool:
        """Whether it may know strangers' words: then they may be in any file that it can write."""
        return self._is_exposed or is_marked(self.origin.workspace)

    @property
    def taint(self) -> frozenset[Taint]:
        """What its output brings into a session."""
        return self.origin.taint | UNTRUSTED if self.is_exposed else self.origin.taint

    @property
    def unread_bytes(self) -> int:
        """How much it has said since somebody looked."""
        return self._ring.total_bytes - self._looked_at

    async def run(self, work: Work, idle_s: float = IDLE_S) -> None:
        """Do the work, as the process's own task."""
        reader, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        try:
            async with asyncio.timeout(idle_s) as self._idle:
                end = await work(reader, self._say)
            self.succeeded = end.code == 0
            self.ended = _in_words(end)
        except TimeoutError:
            self.ended = "ended: nobody has written here for hours"
        except ToolError as exc:
            self.failure, self.ended, self.succeeded = str(exc), "not started", False
        except asyncio.CancelledError:
            self.ended = "killed"
            raise
        finally:
            self.ended = self.ended or "broken"
            self.news = True
            os.close(reader)
            self._close_input()
            self._stirred.set()

    def touch(self, idle_s: float = IDLE_S) -> None:
        """Somebody has written in its conversation."""
        if self._idle is not None and self.ended is None:
            with suppress(RuntimeError):  # it is being ended
                self._idle.reschedule(asyncio.get_running_loop().time() + idle_s)

    async def look(self, wait_s: float) -> tuple[bytes, int]:
        """What it has said since the last look, and how many bytes of that were lost.

        Waits for something to be said, or the end.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.ended is None and not self.unread_bytes:
                    self._stirred.clear()
                    await self._stirred.wait()
        output = self._ring.since(self._looked_at)
        self._looked_at = self._ring.total_bytes
        if self.ended is not None:
            self.news = False
        return output

    async def write(self, text: bytes, *, is_exposed: bool, last: bool) -> None:
        """Give it something to read; after the `last` there is nothing more. Raises `ToolError`."""
        if is_exposed:
            self._is_exposed = True
            # Later commands read what it writes down.
            mark_tainted(self.origin.workspace, self.origin.workspace)
        unwritten = text
        try:
            async with asyncio.timeout(WRITE_S):
                while unwritten and self._stdin is not None:
                    try:
                        unwritten = unwritten[os.write(self._stdin, unwritten) :]
                    except BlockingIOError:
                        await self._room()
        except TimeoutError:
            written_bytes = len(text) - len(unwritten)
            raise ToolError(
                f"It took {written_bytes} of {len(text)} bytes and stopped reading."
            ) from None
        if unwritten:
            raise ToolError("The process no longer accepts input.")
        if last:
            self._close_input()

    async def _room(self) -> None:
        """Wait until the pipe takes something, or is closed."""
        loop, pipe, ready = asyncio.get_running_loop(), self._stdin, asyncio.Event()
        assert pipe is not None, "there is a pipe that is full"
        loop.add_writer(pipe, ready.set)
        self._full = ready
        try:
            await ready.wait()
        finally:
            self._full = None
            # By another number it may be something else by now.
            if self._stdin == pipe:
                loop.remove_writer(pipe)

    def _say(self, data: bytes) -> None:
        self._ring.feed(data)
        self._stirred.set()

    def _close_input(self) -> None:
        if self._stdin is None:
            return
        if self._full is not None:
            asyncio.get_running_loop().remove_writer(self._stdin)
            self._full.set()
        os.close(self._stdin)
        self._stdin = None


def _in_words(end: Exit) -> str:
    if end.why:
        return end.why.strip("[]")
    if end.code is None:
        return "stopped at its time-out"
    return f"killed by signal {-end.code}" if end.code < 0 else f"exit code {end.code}"


async def report(
    process: BackgroundProcess, call: CallContext, limit_bytes: int, wait_s: float = 0
) -> ToolResult:
    """What a process has said since the last look, and how it is."""
    data, lost_bytes = await process.look(wait_s)
    marks = call.workspace if "untrusted" in process.taint else None
    with SpillBuffer(spill_folder(call.workspace), limit_bytes, marks) as output:
        output.feed(data)
    text = output.text().rstrip("\n")
    if lost_bytes:
        text = f"[{lost_bytes:,} bytes were not looked at in time]\n{text}"
    text_shown = f"{text}\n[process {process.number}: {process.state}]".lstrip("\n")
    return output.with_truncation_note(
        ToolResult(text_shown, not process.succeeded, taint=process.taint)
    )
