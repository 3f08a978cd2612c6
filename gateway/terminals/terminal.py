"""Pseudo-terminal with its recent output and its followers."""

import asyncio
import codecs
import fcntl
import os
import struct
import termios
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen

if TYPE_CHECKING:
    from agent.tools.base import Record

# Output that later followers receive, in characters.
MAX_BUFFER_CHARS = 256_000
# Size of an item; the number of items in flight bounds the delay (`websocket.py`).
MAX_ITEM_CHARS = 4_096
# If even the fastest follower lags by more than this, the program has to wait.
_MAX_LAG_CHARS = 64_000
_CHUNK_BYTES = 16_384
# Without followers, at most one chunk is read in this time.
_UNATTENDED_INTERVAL_S = 0.01
_MAX_INPUT_BYTES = 1_000_000


@frozen
class TerminalSize:
    """Size of a terminal. Raises `KoreError` for impossible sizes."""

    columns: int = 80
    rows: int = 24

    def __post_init__(self) -> None:
        if not (2 <= self.columns <= 1_000 and 1 <= self.rows <= 1_000):
            raise KoreError(
                t(
                    "found a terminal of {columns}x{rows}, expected 2x1 to 1000x1000",
                    columns=self.columns,
                    rows=self.rows,
                )
            )


@frozen
class ShellJob:
    """Shell to run in `folder` on the terminal `tty`, a descriptor that the caller keeps.

    `session` is a unique name, `memory` the owner's memory file; `record` stores hosts that are
    reached through a sandbox's proxy.
    """

    tty: int
    folder: Path
    session: str
    memory: Path
    record: "Record"


class ShellRunner(Protocol):
    """Runner of a shell, which returns its exit code, negative for a signal.

    Cancellation kills all processes of the shell. Raises `ToolError`.
    """

    def check(self) -> None:
        """Raise `KoreError` if no shell can run on this machine."""
        ...

    async def run(self, job: ShellJob, on_message: Callable[[bytes], None]) -> int: ...
    async def aclose(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Follower:
    """Follower; `position` counts the characters of all output."""

    position: int
    has_news: asyncio.Event = field(default_factory=asyncio.Event)


class Terminal:
    """Terminal, open until `close`. Output beyond `MAX_BUFFER_CHARS` is dropped, oldest first.

    `used_at` is the time of the last input, `left_at` the time at which the last follower left;
    both are from `time.monotonic`.
    """

    def __init__(self, id: str, folder: Path, size: TerminalSize) -> None:
        self.id, self.folder = id, folder
        self.started_at = time.time()
        self.used_at = self.left_at = time.monotonic()
        self.exit_code: int | None = None
        self._size = size
        self._chunks: deque[str] = deque()
        self._first = self._last = 0
        self._followers: set[_Follower] = set()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._input = bytearray()
        self._loop = asyncio.get_running_loop()
        self._master, self.tty = os.openpty()
        self._is_open, self._is_reading = True, False
        os.set_blocking(self._master, False)
        self._apply_size()
        self._read_on()

    @property
    def is_followed(self) -> bool:
        return bool(self._followers)

    @property
    def _lag(self) -> int:
        """Lag of the fastest follower; a new follower has none."""
        positions = [follower.position for follower in self._followers if follower.position >= 0]
        return self._last - max(positions) if positions else 0

    def write(self, text: str) -> None:
        """Send input. Raises `KoreError` if the program does not read it or has ended."""
        if not self._is_open:
            raise KoreError(t("this terminal has ended"))
        data = text.encode("utf-8", "replace")
        if len(self._input) + len(data) > _MAX_INPUT_BYTES:
            raise KoreError(t("the program in this terminal does not read what you type"))
        self.used_at = time.monotonic()
        self._input += data
        self._write_on()

    def resize(self, size: TerminalSize) -> None:
        self._size = size
        self._apply_size()

    def show(self, data: bytes) -> None:
        """Insert a text from the sandbox or from Kore into the output."""
        self._append(data.decode("utf-8", "replace").replace("\n", "\r\n"))

    async def follow(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the recent output as `screen`, then each `output`, finally the `exit_code`.

        A follower that is too slow gets a `screen` again.
        """
        follower = _Follower(-1)
        self._followers.add(follower)
        self._read_on()
        try:
            while True:
                follower.has_news.clear()
                if follower.position < self._first:
                    yield self._screen(follower)
                elif follower.position < self._last:
                    yield {"output": self._next_text(follower)}
                    self._read_on()
                elif self.exit_code is not None:
                    yield {"exit_code": self.exit_code}
                    return
                else:
                    await follower.has_news.wait()
        finally:
            self._followers.discard(follower)
            self.left_at = time.monotonic()
            self._read_on()

    def close(self, exit_code: int) -> None:
        """Read the rest of the output after the program has ended; do nothing if closed already."""
        if not self._is_open:
            return
        self._pause()
        with suppress(OSError):  # EAGAIN or EIO: there is no more output
            while data := os.read(self._master, _CHUNK_BYTES):
                self._append(self._decoder.decode(data))
        self._append(self._decoder.decode(b"", True))
        self._loop.remove_writer(self._master)
        self._is_open = False
        os.close(self._master)
        os.close(self.tty)
        self.exit_code = exit_code
        self._wake_waiting()

    def _screen(self, follower: _Follower) -> Mapping[str, Any]:
        text = "".join(self._chunks)
        if self._first > 0:
            # The text may start inside a control sequence.
            text = text[text.find("\n") + 1 :]
        follower.position = self._last
        return {"screen": text, "columns": self._size.columns, "rows": self._size.rows}

    def _next_text(self, follower: _Follower) -> str:
        skip, parts, count = follower.position - self._first, list[str](), 0
        for chunk in self._chunks:
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            parts.append(chunk[skip : skip + MAX_ITEM_CHARS - count])
            count, skip = count + len(parts[-1]), 0
            if count == MAX_ITEM_CHARS:
                break
        follower.position += count
        return "".join(parts)

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._chunks and len(self._chunks[-1]) < MAX_ITEM_CHARS:
            self._chunks[-1] += text
        else:
            self._chunks.append(text)
        self._last += len(text)
        while self._last - self._first - len(self._chunks[0]) >= MAX_BUFFER_CHARS:
            self._first += len(self._chunks.popleft())
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for follower in self._followers:
            follower.has_news.set()

    def _read(self) -> None:
        try:
            data = os.read(self._master, _CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # EIO: no process has the terminal open any more.
            self._pause()
            return
        self._append(self._decoder.decode(data))
        if not self._followers:
            self._pause()
            self._loop.call_later(_UNATTENDED_INTERVAL_S, self._read_on)
        elif self._lag > _MAX_LAG_CHARS:
            self._pause()

    def _read_on(self) -> None:
        if self._is_open and not self._is_reading and self._lag <= _MAX_LAG_CHARS:
            self._is_reading = True
            self._loop.add_reader(self._master, self._read)

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._master)

    def _write_on(self) -> None:
        try:
            count = os.write(self._master, self._input)
        except BlockingIOError:
            count = 0
        except OSError:
            # EIO: the program is ending.
            count = len(self._input)
        del self._input[:count]
        if self._input:
            self._loop.add_writer(self._master, self._write_on)
        else:
            self._loop.remove_writer(self._master)

    def _apply_size(self) -> None:
        if self._is_open:
            size = struct.pack("HHHH", self._size.rows, self._size.columns, 0, 0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
