"""Output of /help in narrow terminals."""

import io

import pytest

from agent.i18n import t, use_locale
from agent.text.display_width import display_width
from gateway.cli.console.chat.local_commands import CHAT_COMMANDS, help_table
from gateway.cli.console.output.screen import Screen
from gateway.presenter.text import without_ansi


@pytest.mark.parametrize("language", ["en", "zh-Hans", "zh-Hant"])
@pytest.mark.parametrize("columns", [40, 50, 80])
def test_help_breaks_no_word_in_a_narrow_terminal(language: str, columns: int) -> None:
    screen = Screen(io.StringIO())
    screen.console.width = columns
    with use_locale(language):
        lines = [without_ansi(line) for line in screen.render(help_table())]
        summaries = [t(summary) for _, summary in CHAT_COMMANDS]
    assert max(map(display_width, lines)) < columns
    # Concatenate the lines, without the spaces at which a line may break.
    shown = "".join("".join(lines).split())
    assert [summary for summary in summaries if "".join(summary.split()) not in shown] == []
