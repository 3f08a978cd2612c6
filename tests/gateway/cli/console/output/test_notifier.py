"""Control sequences that draw attention to a terminal."""

import io
from collections.abc import Mapping

import pytest

from agent.events import AttentionNeeded
from gateway.cli.console.output.notifier import TerminalNotifier, desktop_notification
from gateway.cli.console.output.screen import Screen


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        ({}, ""),
        ({"KITTY_WINDOW_ID": "1"}, "\x1b]9;Hi\a"),
        ({"TERM": "foot"}, "\x1b]777;notify;Kore;Hi\a"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7000"}, "\x1b]777;notify;Kore;Hi\a"),
        ({"TMUX": "/tmp/tmux,1,0", "WEZTERM_PANE": "0"}, "\x1bPtmux;\x1b\x1b]9;Hi\a\x1b\\"),
        ({"STY": "1.pts-0", "KITTY_WINDOW_ID": "1"}, ""),
    ],
)
def test_desktop_notification_depends_on_the_terminal(
    environ: Mapping[str, str], sequence: str
) -> None:
    assert desktop_notification("Hi", environ) == sequence


def test_title_is_stored_once_and_restored() -> None:
    written: list[str] = []
    notifier = TerminalNotifier(written.append, {})
    notifier.clear()
    notifier.notify(AttentionNeeded("question"))
    notifier.notify(AttentionNeeded("ended"))
    notifier.clear()
    notifier.clear()
    assert written == [
        "\x1b[22;0t\x1b]2;? Kore asks something\a\a",
        "\x1b]2;• Kore has finished\a\a",
        "\x1b[23;0t",
    ]


def test_pipe_gets_no_control_sequences() -> None:
    out = io.StringIO()
    notifier = TerminalNotifier(Screen(out).write_control, {})
    notifier.notify(AttentionNeeded("ended"))
    notifier.clear()
    assert out.getvalue() == ""
