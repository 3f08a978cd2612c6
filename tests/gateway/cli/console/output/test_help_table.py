"""Output of /help in narrow terminals."""

import io
from pathlib import Path

import pytest

from agent.context.project.context import ProjectContext
from agent.i18n import t, use_locale
from agent.skills.commands import CommandFolder, CustomCommands
from agent.text.display_width import display_width
from gateway.cli.console.chat.local_commands import CHAT_COMMANDS, help_table
from gateway.cli.console.chat.workdir import ConsoleWorkdir
from gateway.cli.console.output.screen import Screen
from gateway.presenter.text import without_ansi


def test_help_lists_a_replaced_built_in_command_once(tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text("Look for typing errors.")
    customs = CustomCommands([CommandFolder(tmp_path, False, True)])
    place = ConsoleWorkdir(
        tmp_path, (), lambda: ProjectContext(tmp_path), tuple, custom_commands=customs
    )
    screen = Screen(io.StringIO())
    lines = [without_ansi(line).split() for line in screen.render(help_table(place))]
    (row,) = [line for line in lines if line[:1] == ["/review"]]
    assert row[1:] == ["Look", "for", "typing", "errors."]
    assert any(line[:1] == ["/init"] for line in lines)


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
