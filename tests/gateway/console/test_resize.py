"""The console in a real terminal whose window changes: tmux moves lines as other terminals do."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.control import ControlServer
from tests.fakes.memory_service import MemoryService
from tests.gateway.console.terminal import DEADLINE_S, ROOT

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A window with `kore agent` in it."""

    def __init__(self, home: Path) -> None:
        self._socket = str(home / "tmux")
        self._home = home

    async def start(self, columns: int) -> None:
        own = {"HOME": str(self._home), "KORE_HOME": str(self._home), "LANG": "C.UTF-8"}
        given = [word for name, value in own.items() for word in ("-e", f"{name}={value}")]
        program = (sys.executable, "-m", "gateway", "agent")
        size = ("-x", str(columns), "-y", "30")
        await self("-f", "/dev/null", "new-session", "-d", "-c", str(ROOT), *size, *given, *program)

    async def __call__(self, *words: str) -> str:
        ran = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self._socket, *words),
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            stdout=asyncio.subprocess.PIPE,
        )
        return (await ran.communicate())[0].decode()

    async def see(self, is_there: Callable[[str], bool]) -> str:
        """All lines, those above the window too, once they are as wanted."""
        shown = ""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not is_there(shown := await self("capture-pane", "-p", "-S", "-")):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(shown) from None
        return shown


@pytest.fixture
async def window(tmp_path: Path) -> AsyncIterator[Tmux]:
    tmp_path.chmod(0o700)
    tmux = Tmux(tmp_path)
    async with MemoryService() as service, ControlServer(service, tmp_path / "kore.sock"):
        await tmux.start(100)
        yield tmux
        await tmux("kill-server")


async def test_a_window_that_narrows_after_ctrl_l_copies_nothing(window: Tmux) -> None:
    await window.see(lambda shown: "\n›" in shown)
    await window("send-keys", "one long line " * 9, "Enter")
    await window.see(lambda shown: shown.count("echo: one long line") == 1)
    await window("send-keys", "C-l")
    await window("send-keys", "draft")
    await window.see(lambda shown: shown.count("› draft") == 1)
    # Never shorter than the status line: the terminal wraps that before Kore hears of it.
    for columns in range(95, 60, -5):
        await window("resize-window", "-x", str(columns), "-y", "30")
    await window("send-keys", "ed")
    shown = await window.see(lambda shown: "› drafted" in shown)
    assert shown.count("draft") == 1
    assert shown.count("echo: one long") == 1
