"""Console in a real terminal whose window is resized; tmux reflows lines as other terminals do."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.cli.console.input.prompt import rewraps, wrapped_rows
from gateway.control.server import ControlServer
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
async def window(tmp_path: Path) -> AsyncIterator[Tmux]:
    tmp_path.chmod(0o700)
    tmux = Tmux(tmp_path)
    async with MemoryService() as service, ControlServer(service, tmp_path / "kore.sock"):
        await tmux.start(100)
        yield tmux
        await tmux("kill-server")


async def test_narrowing_after_ctrl_l_leaves_no_copy(window: Tmux) -> None:
    await window.see(lambda shown: "\n›" in shown)
    await window("send-keys", "one long line " * 9, "Enter")
    await window.see(lambda shown: shown.count("echo: one long line") == 1)
    await window("send-keys", "C-l")
    await window("send-keys", "draft")
    await window.see(lambda shown: shown.count("› draft") == 1)
    # Stay wider than the status line: the terminal wraps the line before Kore learns of the resize.
    for columns in range(95, 60, -5):
        await window("resize-window", "-x", str(columns), "-y", "30")
    await window("send-keys", "ed")
    shown = await window.see(lambda shown: "› drafted" in shown)
    assert shown.count("draft") == 1
    assert shown.count("echo: one long") == 1


async def test_narrowing_with_a_draft_of_several_rows_leaves_no_copy(
    window: Tmux,
) -> None:
    await window.see(lambda shown: "\n›" in shown)
    lines = [word for n in range(30) for word in (f"line{n}", "C-j")]
    await window("send-keys", *lines, "last", "Enter")
    # Fill the window first: lines that have scrolled off the top cannot be erased.
    await window.see(lambda shown: shown.count("last") == 2 and " tokens in" in shown)
    await window("send-keys", "draft " + "数字 and words " * 15 + "tail")
    await window.see(lambda shown: "tail" in shown)
    for columns in (60, 30, 20):
        await window("resize-window", "-x", str(columns), "-y", "30")
        mark = f"m{columns}"
        await window("send-keys", mark)
        shown = await window.see(lambda shown, mark=mark: mark in shown.replace("\n  ", ""))
        assert shown.count("draft") == 1, (columns, shown)


def test_rewrapping_terminals_are_detected() -> None:
    assert rewraps({"TMUX": "/tmp/tmux-0/default,1,0"})
    assert rewraps({"TERM_PROGRAM": "iTerm.app"})
    assert not rewraps({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"})
    # Inside GNU Screen, the variables of the outer terminal are set too.
    assert not rewraps({"STY": "1.pts-0", "VTE_VERSION": "7400"})


@pytest.mark.parametrize(
    ("cells", "columns", "rows"), [([], 5, 1), ([1] * 5, 5, 1), ([1] * 6, 5, 2), ([2, 0] * 5, 5, 3)]
)
def test_wrapped_rows_are_counted(cells: list[int], columns: int, rows: int) -> None:
    assert wrapped_rows(cells, columns) == rows
