"""Ctrl-Z and `fg` in a shell, with `kore agent` and `kore tui`."""

import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.cli.tmux import Tmux

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Tmux]:
    tmp_path.chmod(0o700)
    tmux = Tmux(tmp_path)
    program = f"{shlex.quote(sys.executable)} -m gateway"
    environ = {"PS1": "shell> ", "KORE_MODEL_NAME": "offline/echo"}
    start = f'kore() {{ {program} "$@"; }}'
    await tmux.start(90, program=("bash", "--norc", "--noprofile"), environ=environ)
    await tmux("send-keys", start, "Enter")
    yield tmux
    await tmux("kill-server")


async def test_prompt_is_drawn_again_after_it_was_suspended(shell: Tmux) -> None:
    await shell("send-keys", "kore agent --model offline/echo", "Enter")
    await shell.see(lambda shown: "/help lists the commands" in shown and "›" in shown)
    await shell("send-keys", "half a line")
    await shell.see(lambda shown: "› half a line" in shown)
    await shell("send-keys", "C-z")
    await shell.see(lambda shown: "Stopped" in shown)
    await shell("send-keys", "echo $((40 + 2))", "Enter")
    await shell.see(lambda shown: "\n42\n" in shown)
    await shell("send-keys", "fg", "Enter")
    await shell.see(lambda shown: "› half a line" in shown.split("fg\n")[-1])
    await shell("send-keys", " and more", "Enter")
    await shell.see(lambda shown: "You wrote:" in shown)


async def test_turn_is_suspended_and_continues(shell: Tmux, tmp_path: Path) -> None:
    await shell("send-keys", "kore agent --model offline/echo -y", "Enter")
    await shell.see(lambda shown: "/help lists the commands" in shown and "›" in shown)
    command = "until test -e continued; do sleep 0.1; done; echo $((40 + 2))"
    await shell("send-keys", f'!tool exec {{"command": "{command}"}}', "Enter")
    await shell.see(lambda shown: "Ctrl-C stops" in shown)
    await shell("send-keys", "C-z")
    await shell.see(lambda shown: "Stopped" in shown and "Ctrl-C stops" not in shown)
    await shell("send-keys", "fg", "Enter")
    await shell.see(lambda shown: "Ctrl-C stops" in shown.split("fg\n")[-1])
    (tmp_path / "workspace" / "continued").touch()
    await shell.see(lambda shown: "42" in shown.split("fg\n")[-1])
    await shell("send-keys", "/exit", "Enter")
    await shell.see(lambda shown: "To resume later" in shown)


async def test_full_screen_is_drawn_again_after_it_was_suspended(shell: Tmux) -> None:
    pytest.importorskip("textual", reason="textual is not installed (extra tui)")
    await shell("send-keys", "kore tui --model offline/echo", "Enter")
    await shell.see(lambda shown: "/help lists the commands" in shown)
    await shell("send-keys", "half a line")
    await shell.see(lambda shown: "half a line" in shown)
    await shell("send-keys", "C-z")
    await shell.see(lambda shown: "Stopped" in shown)
    await shell("send-keys", "fg", "Enter")
    await shell.see(lambda shown: "half a line" in shown and "/help lists" in shown)
    await shell("send-keys", " and more", "Enter")
    await shell.see(lambda shown: "You wrote:" in shown)
