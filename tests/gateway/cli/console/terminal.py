"""Pseudo-terminal that runs a real `kore agent`."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

from tests import fork_server, postgres_server
from tests.fork_server import ForkedProcess

DEADLINE_S = 30
ROOT = Path(__file__).parents[4]
_FORWARD = re.compile(r"\x1b\[(\d*)C")
_CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_=>])|\r")


class Terminal:
    """Terminal with the program's output: `raw` as written, `text` without control codes."""

    def __init__(self, master: int, process: ForkedProcess | asyncio.subprocess.Process) -> None:
        self._master = master
        self._news = asyncio.Event()
        self._mark = 0
        self.process = process
        self.raw = ""

    @property
    def text(self) -> str:
        spaced = _FORWARD.sub(lambda match: " " * int(match[1] or 1), self.raw)
        return _CONTROLS.sub("", spaced)

    def on_ready(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        # A terminal reports its cursor position on request.
        for _ in range(data.count(b"\x1b[6n")):
            os.write(self._master, b"\x1b[9;1R")
        self.raw += data.decode(errors="replace")
        self._news.set()

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        resize(self._master, rows, columns)

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    async def see(self, text: str) -> None:
        """Wait until the text appears in the output after the last text seen."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while (at := self.text.find(text, self._mark)) < 0:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} not in …{self.text[self._mark :][-800:]!r}") from None
        self._mark = at + len(text)

    async def see_raw(self, sequence: str) -> None:
        """Wait until the control sequence was written."""
        async with asyncio.timeout(DEADLINE_S):
            while sequence not in self.raw:
                self._news.clear()
                await self._news.wait()

    async def interrupt(self, text: str) -> None:
        """Press Ctrl-C until the text appears.

        A signal between a prompt and its read is noticed only at the next key, as in every program
        that reads lines.
        """
        async with asyncio.timeout(DEADLINE_S):
            while text not in self.text[self._mark :]:
                self.process.send_signal(signal.SIGINT)
                with suppress(TimeoutError):
                    async with asyncio.timeout(3):
                        while text not in self.text[self._mark :]:
                            self._news.clear()
                            await self._news.wait()

    async def ended(self) -> int:
        async with asyncio.timeout(DEADLINE_S):
            return await self.process.wait()


def resize(master: int, rows: int, columns: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def kore_agent(
    home: Path, *words: str, environ: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> AbstractAsyncContextManager[Terminal]:
    """Run `kore agent` in a terminal of 24 lines and 80 columns."""
    return kore_there(home, "agent", *words, environ=environ, cwd=cwd)


@asynccontextmanager
async def kore_there(
    home: Path, *words: str, environ: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> AsyncIterator[Terminal]:
    """Run any verb in a terminal of 24 lines and 80 columns."""
    master, slave = pty.openpty()
    # Set the size before anything is written, because the first lines are wrapped too.
    resize(master, 24, 80)
    env = {"PATH": os.environ["PATH"], "KORE_HOME": str(home), "TERM": "xterm-256color"}
    env |= postgres_server.environ_of(home)
    # The remaining time of a question appears as soon as keys count.
    env["KORE_SECURITY_APPROVAL_TIMEOUT_S"] = "300"
    # The shell's folder is the source folder, which is a project.
    env["KORE_AGENT_START_IN"] = "workspace"
    env |= environ or {}
    process: ForkedProcess | asyncio.subprocess.Process
    if fork_server.unsettled(env):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *words),
            **dict.fromkeys(("stdin", "stdout", "stderr"), slave),
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    else:
        process = fork_server.start(
            words, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, new_session=True
        )
    terminal = Terminal(master, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(master, terminal.on_ready)
    try:
        yield terminal
    finally:
        loop.remove_reader(master)
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(master)
        os.close(slave)
