"""`kore tui` as a person starts it, in a real terminal next to other processes."""

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests import postgres_server
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.cli.console.terminal import DEADLINE_S
from tests.gateway.cli.tmux import Tmux

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def window(tmp_path: Path, model: ModelServer) -> AsyncIterator[Tmux]:
    tmp_path.chmod(0o700)
    entry = {"model_name": "default", "model": "openai/fake", "api_base": f"{model.url}/v1"}
    config = {"model_list": [{**entry, "api_key": "sk-tui"}], "http": {"port": 0}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tmux = Tmux(tmp_path)
    await tmux.start(90, "tui")
    await tmux.see(lambda shown: "/help lists the commands" in shown)
    yield tmux
    await tmux("kill-server")


@asynccontextmanager
async def gateway(home: Path) -> AsyncIterator[int]:
    """Run `kore gateway` as a separate process, and yield its process id once it owns the data."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "KORE_HOME": str(home)}
    own |= postgres_server.environ_of(home)
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "gateway"), env=own, stdin=DEVNULL, stderr=PIPE
    )
    assert process.stderr is not None
    try:
        async for line in process.stderr:
            if b"is running" in line:
                break
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_takeover_and_kill_of_a_gateway_lose_and_repeat_nothing(
    window: Tmux, model: ModelServer, tmp_path: Path
) -> None:
    await window("send-keys", "first words", "Enter")
    await window.see(lambda shown: "echo: first words" in shown)
    async with gateway(tmp_path) as pid:
        text = "It comes in pieces, and is broken off."
        model.script(ReplyScript(text=text, pieces=4, waits_at=3), ReplyScript(text=text))
        await window("send-keys", "second words", "Enter")
        await window.see(lambda shown: "It comes in" in shown)
        os.kill(pid, signal.SIGKILL)
        shown = await window.see(lambda shown: f"{text}\n" in shown.replace(" \n", "\n"))
        await window("send-keys", "third words", "Enter")
        shown = await window.see(lambda shown: "echo: third words" in shown)
    for words in ("› first words", "› second words", "› third words", "is broken off"):
        assert shown.count(words) == 1, shown


async def test_terminal_is_restored(window: Tmux) -> None:
    await window("set-option", "remain-on-exit", "on")
    await window("send-keys", "C-q")
    async with asyncio.timeout(DEADLINE_S):
        while "1" not in await window("display-message", "-p", "#{pane_dead}"):
            await asyncio.sleep(0.05)
    modes = await window("display-message", "-p", "#{alternate_on} #{mouse_any_flag}")
    assert modes.split() == ["0", "0"]


async def test_resize_while_streaming_shows_all_text(window: Tmux, model: ModelServer) -> None:
    text = "中文混合 words。" * 40 + "结束"
    model.script(ReplyScript(text=text, pieces=40, waits_at=20))
    await window("resize-window", "-x", "80", "-y", "24")
    await window("send-keys", "第一句话", "Enter")
    await window.see(lambda shown: "中文混合" in shown)
    await window("resize-window", "-x", "200", "-y", "50")
    await window.see(lambda shown: any(len(line) > 90 for line in shown.splitlines()))
    await window("resize-window", "-x", "80", "-y", "24")
    model.let_go()
    await window.see(lambda shown: "结束" in shown)
    await window("resize-window", "-x", "200", "-y", "50")
    # Lines may break between any two Chinese characters.
    whole = text.replace(" ", "")
    shown = await window.see(lambda shown: whole in "".join(shown.split()))
    assert shown.count("› 第一句话") == 1


async def test_resize_leaves_no_old_lines_and_a_click_selects_a_tab(window: Tmux) -> None:
    await window("send-keys", "第一句话", "Enter")
    await window.see(lambda shown: "echo: 第一句话" in shown and "tokens in" in shown)
    await window("send-keys", "一半 half")
    for columns, rows in ((80, 24), (200, 50), (60, 15)):
        await window("resize-window", "-x", str(columns), "-y", str(rows))

        def is_whole(shown: str, columns: int = columns, rows: int = rows) -> bool:
            """Return whether the lines fit the window.

            There is a single input line as wide as the window, and a single last line below it.
            """
            lines = shown.rstrip("\n").split("\n")
            edges = [line for line in lines if line.startswith("╭")]
            typed = [line for line in lines if line.startswith("│ 一半 half")]
            if [(cell_len(line), line[-1]) for line in typed] != [(columns, "│")]:
                return False
            boxes = edges == ["╭" + "─" * (columns - 2) + "╮"]
            return boxes and len(lines) == rows and lines[-1].endswith("^p Commands")

        shown = await window.see(is_whole)
        assert shown.count("› 第一句话") == shown.count("^n New") == 1, shown
    await window("send-keys", "C-n")
    await window.see(lambda shown: "echo:" not in shown and " New" in shown.split("\n")[0])
    # Press and release at the first title, as terminals report a mouse.
    for end in "Mm":
        await window("send-keys", "-l", f"\x1b[<0;3;1{end}")
    await window.see(lambda shown: "echo: 第一句话" in shown)


async def test_mouse_selection_is_copied(window: Tmux) -> None:
    await window("set-option", "-s", "set-clipboard", "on")
    await window("send-keys", "苹果 apples", "Enter")
    shown = await window.see(lambda shown: "echo: 苹果 apples" in shown and "tokens in" in shown)
    lines = shown.split("\n")
    row = 1 + next(n for n, line in enumerate(lines) if "echo: 苹果" in line)
    # Select from the "e" of "echo" to the end; Chinese characters are two columns wide.
    for report in (f"0;2;{row}M", f"32;12;{row}M", f"32;19;{row}M", f"0;19;{row}m"):
        await window("send-keys", "-l", f"\x1b[<{report}")
    await window("send-keys", "C-c")
    async with asyncio.timeout(DEADLINE_S):
        while await window("show-buffer") != "echo: 苹果 apples":
            await asyncio.sleep(0.05)
