"""Background command: its output, its input and its exit."""

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
from agent.tools.base import CallContext, EndedCommand, TaskOutput
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.shell.process_group import Exit
from agent.types import Taint, ToolResult


class RingBuffer:
    """Buffer of the newest `limit_bytes`; positions count from the beginning of the output."""

    def __init__(self, limit_bytes: int) -> None:
        self.total_bytes = 0
        self._limit = limit_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._data += data
        # Cut only at one and a half times the limit, so that the rest is not moved for every byte.
        if len(self._data) > self._limit * 3 // 2:
            del self._data[: -self._limit]

    def since(self, position: int) -> tuple[bytes, int]:
        """Return the output after a position, and the number of its bytes that are lost."""
        data = bytes(self._data[-self._limit :])
        first = self.total_bytes - len(data)
        return data[max(0, position - first) :], max(0, first - position)


MAX_BUFFER_BYTES = 200_000

# A process is ended when its conversation has been silent for this long.
MAX_IDLE_S = 12 * 3600.0

WRITE_TIMEOUT_S = 5.0

_MAX_TITLE_CHARS = 60
_MAX_LAST_LINE_CHARS = 400

# Run the command with this descriptor as its standard input.
Work = Callable[[int, Callable[[bytes], None]], Awaitable[Exit]]


@frozen
class ProcessOrigin:
    """Origin of a process: its command and folder, reachable hosts and the taint of its output.

    `is_exposed`: it could read strangers' words from the start. `read_only`: it cannot write to
    disk.
    """

    command: str
    folder: Path
    workspace: Path
    hosts: tuple[str, ...]
    taint: frozenset[Taint]
    is_exposed: bool
    read_only: bool = False


class BackgroundProcess:
    """Process and its last output.

    `run` lasts as long as the process; `exit_description` describes its exit, None while it runs.
    `is_ending`: its end was requested, which takes a moment. `has_unreported_end`: the model does
    not know yet that it ended (`is_being_reported`: the next turn reports it). `start_error` is the
    reason why it could not be started.
    """

    def __init__(
        self,
        number: int,
        origin: ProcessOrigin,
        on_end: Callable[[EndedCommand], None] | None = None,
    ) -> None:
        self.number = number
        self._on_end = on_end
        self._withdraw: Callable[[], Awaitable[None]] | None = None
        self.origin = origin
        self.exit_description: str | None = None
        self.start_error: str | None = None
        self.has_succeeded = True
        self.is_ending = self.has_unreported_end = self.is_being_reported = False
        self.started_at_s = time.monotonic()
        self._is_exposed = origin.is_exposed
        self._ring = RingBuffer(MAX_BUFFER_BYTES)
        self._activity = asyncio.Event()
        self._idle: asyncio.Timeout | None = None
        self._stdin: int | None = None
        self._full: asyncio.Event | None = None
        self._read_position = 0

    @property
    def title(self) -> str:
        line = " ".join(self.origin.command.split())
        return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"

    @property
    def state(self) -> str:
        """State in words."""
        if self.is_ending and self.exit_description is None:
            return "being ended"
        return self.exit_description or f"running for {time.monotonic() - self.started_at_s:.1f} s"

    @property
    def began_at(self) -> float:
        """Start time as Unix time in seconds."""
        return time.time() - (time.monotonic() - self.started_at_s)

    @property
    def last_line(self) -> str:
        lines = self.last_output(_MAX_LAST_LINE_CHARS).replace("\r", "\n").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def output_since(self, position: int) -> TaskOutput:
        """Return output for people, without marking it as read by the model."""
        data, lost_bytes = self._ring.since(position)
        begin = max(0, position) + lost_bytes
        return TaskOutput(data.decode("utf-8", "replace"), begin, begin + len(data))

    @property
    def is_exposed(self) -> bool:
        """True if it may have read strangers' words, which may then be in any file it can write."""
        return self._is_exposed or is_marked(self.origin.workspace)

    @property
    def taint(self) -> frozenset[Taint]:
        """Taint of its output."""
        return self.origin.taint | UNTRUSTED if self.is_exposed else self.origin.taint

    @property
    def unread_bytes(self) -> int:
        """Number of bytes of output not read yet."""
        return self._ring.total_bytes - self._read_position

    async def run(self, work: Work, idle_s: float = MAX_IDLE_S) -> None:
        """Run the work as the process's own task."""
        reader, self._stdin = os.pipe()
        os.set_blocking(self._stdin, False)
        try:
            async with asyncio.timeout(idle_s) as self._idle:
                end = await work(reader, self._take_output)
            self.has_succeeded = end.code == 0
            self.exit_description = _describe_exit(end)
            self.has_unreported_end = True
            if self._on_end is not None:
                self._on_end(self)
        except TimeoutError:
            self.exit_description = "stopped: this conversation was inactive for hours"
        except ToolError as exc:
            self.start_error, self.exit_description, self.has_succeeded = (
                str(exc),
                "not started",
                False,
            )
        except asyncio.CancelledError:
            self.exit_description = "killed"
            raise
        finally:
            self.exit_description = self.exit_description or "broken"
            self.has_unreported_end = True
            os.close(reader)
            self._close_input()
            self._activity.set()

    def touch(self, idle_s: float = MAX_IDLE_S) -> None:
        """Restart the idle timer, because a message arrived in its conversation."""
        if self._idle is not None and self.exit_description is None:
            with suppress(RuntimeError):  # the process is being ended
                self._idle.reschedule(asyncio.get_running_loop().time() + idle_s)

    async def read_output(self, wait_s: float, *, first_words: bool) -> tuple[bytes, int]:
        """Return the output since the last read, and the number of lost bytes.

        Waits for the end of the process or the timeout or, with `first_words`, for the first output
        after some input.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.exit_description is None and not (first_words and self.unread_bytes):
                    self._activity.clear()
                    await self._activity.wait()
        output = self._ring.since(self._read_position)
        self._read_position = self._ring.total_bytes
        if self.exit_description is not None:
            await self._mark_read()
        return output

    @property
    def is_news(self) -> bool:
        return self.has_unreported_end and not self.is_being_reported

    def last_output(self, limit_chars: int) -> str:
        data, _ = self._ring.since(self._ring.total_bytes - limit_chars * 4)
        text = data.decode("utf-8", "replace").rstrip("\n")
        return text if len(text) <= limit_chars else f"…{text[-limit_chars:]}"

    def set_told(self, withdraw: Callable[[], Awaitable[None]]) -> None:
        self.has_unreported_end, self._withdraw = False, withdraw

    def take_back(self) -> bool:
        if self._withdraw is None:
            return False
        self.has_unreported_end, self._withdraw = True, None
        return True

    async def _mark_read(self) -> None:
        """Withdraw the notification of the model, which knows about the end."""
        self.has_unreported_end = False
        withdraw, self._withdraw = self._withdraw, None
        if withdraw is not None:
            await withdraw()

    async def write(self, text: bytes, *, is_exposed: bool, last: bool) -> None:
        """Write input to the process; `last` closes its input. Raises `ToolError`."""
        if is_exposed:
            self._is_exposed = True
            # Later commands read the files that it writes.
            mark_tainted(self.origin.workspace, self.origin.workspace)
        unwritten = text
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
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
        """Wait until the pipe is writable or closed."""
        loop, pipe, ready = asyncio.get_running_loop(), self._stdin, asyncio.Event()
        assert pipe is not None, "there is a pipe that is full"
        loop.add_writer(pipe, ready.set)
        self._full = ready
        try:
            await ready.wait()
        finally:
            self._full = None
            # The descriptor number may have been reused by now.
            if self._stdin == pipe:
                loop.remove_writer(pipe)

    def _take_output(self, data: bytes) -> None:
        self._ring.feed(data)
        self._activity.set()

    def _close_input(self) -> None:
        if self._stdin is None:
            return
        if self._full is not None:
            asyncio.get_running_loop().remove_writer(self._stdin)
            self._full.set()
        os.close(self._stdin)
        self._stdin = None


def _describe_exit(end: Exit) -> str:
    if end.reason:
        return end.reason.strip("[]")
    if end.code is None:
        return "stopped at its timeout"
    return f"killed by signal {-end.code}" if end.code < 0 else f"exit code {end.code}"


async def report(
    process: BackgroundProcess,
    call: CallContext,
    limit_bytes: int,
    wait_s: float = 0,
    *,
    first_words: bool = False,
) -> ToolResult:
    """Return the output of a process since the last read, and its state."""
    data, lost_bytes = await process.read_output(wait_s, first_words=first_words)
    marks = call.workspace if "untrusted" in process.taint else None
    with SpillBuffer(spill_folder(call.workspace), limit_bytes, marks) as output:
        output.feed(data)
    text = output.text().rstrip("\n")
    if lost_bytes:
        text = f"[{lost_bytes:,} bytes were dropped before they were read]\n{text}"
    text_shown = f"{text}\n[process {process.number}: {process.state}]".lstrip("\n")
    return output.with_truncation_note(
        ToolResult(text_shown, not process.has_succeeded, taint=process.taint)
    )
