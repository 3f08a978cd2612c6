"""First start of `kore agent` in a folder."""

import json
from pathlib import Path

import pytest

from tests.gateway.cli.console.chat.prompt import PROMPT
from tests.gateway.cli.console.terminal import kore_agent

COLUMNS = 80


@pytest.mark.parametrize("word", ["y", "n"])
async def test_trust_is_asked_once_per_project(home: Path, tmp_path: Path, word: str) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    here = {"KORE_AGENT_START_IN": "project"}
    async with kore_agent(home, environ=here, cwd=project) as terminal:
        await terminal.see("New project:")
        await terminal.see("[y/N]")
        meaning = terminal.text[terminal.text.index("If you trust it") :].splitlines()
        assert len(meaning) > 2
        assert all(len(line) <= COLUMNS for line in meaning)
        terminal.type(f"{word}\n")
        await terminal.see("new session")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
    if word == "y":
        config = json.loads((home / "config.json").read_text())
        assert config == {"security": {"trusted_folders": [str(project)]}}
    async with kore_agent(home, environ=here, cwd=project) as terminal:
        await terminal.see("new session")
        await terminal.see(PROMPT)
        assert "[y/N]" not in terminal.text
        assert ("To trust it: kore trust" in terminal.text) == (word == "n")
        terminal.type("/exit\r")
        assert await terminal.ended() == 0


@pytest.mark.parametrize("flags", [(), ("--full-access",)])
async def test_folder_name_cannot_control_the_terminal(
    home: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """The name may come from a stranger: no escape sequence takes effect, and no line is forged."""
    project = tmp_path / "a\x1b]0;title\x07\nforged\u202e"
    (project / ".git").mkdir(parents=True)
    (project / ".kore").mkdir()
    (project / ".kore" / "config.json").write_text('{"agent": {"max_iterations": 5}}')
    here = {"KORE_AGENT_START_IN": "project"}
    async with kore_agent(home, *flags, environ=here, cwd=project) as terminal:
        if not flags:
            await terminal.see("[y/N]")
            terminal.type("n\n")
        await terminal.see("new session")
        await terminal.see(PROMPT)
        terminal.type("/exit\r")
        assert await terminal.ended() == 0
        assert "\x1b]0;title" not in terminal.text
        # The screen may wrap the name anywhere.
        on_one_line = "".join(line.strip() for line in terminal.text.splitlines())
        assert r"\u{a}forged" in on_one_line
        assert "\u202e" not in terminal.text
