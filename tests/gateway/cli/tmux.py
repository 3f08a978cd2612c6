"""Kore in a real terminal; tmux reflows lines as other terminals do."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import postgres_server
from tests.gateway.cli.console.terminal import DEADLINE_S, ROOT


class Tmux:
    """Window that runs a verb of Kore, or another program."""

    def __init__(self, home: Path) -> None:
        self._socket = str(home / "tmux")
        self._home = home

    async def start(
        self,
        columns: int,
        *words: str,
        environ: Mapping[str, str] | None = None,
        program: Sequence[str] = (sys.executable, "-m", "gateway"),
    ) -> None:
        variables = {"HOME": str(self._home), "KORE_HOME": str(self._home), "LANG": "C.UTF-8"}
        variables |= {"KORE_AGENT_START_IN": "workspace", **postgres_server.environ_of(self._home)}
        variables |= environ or {}
        options = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        size = ("-x", str(columns), "-y", "30")
        await self(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-c",
            str(ROOT),
            *size,
            *options,
            *program,
            *words,
        )
        # The server is no child of the tests, and must not outlive them when they are killed.
        tests_run = f"kill -0 {os.getpid()} 2>&-"
        end = f"tmux -S {shlex.quote(self._socket)} kill-server"
        await self("run-shell", "-b", f"while {tests_run}; do sleep 1; done; {end}")

    async def __call__(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self._socket, *words),
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            stdout=asyncio.subprocess.PIPE,
        )
        return (await process.communicate())[0].decode()

    async def see(self, is_there: Callable[[str], bool]) -> str:
        """Return all lines, including those above the window, once they satisfy the condition."""
        screen = ""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not is_there(screen := await self("capture-pane", "-p", "-S", "-")):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(screen) from None
        return screen
