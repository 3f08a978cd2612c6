"""Commands and skills in an editor: announced, and expanded in prompts."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.plugins.installation import PluginInstaller
from tests.agent.skills.skill_files import write
from tests.fakes.editor import KEY, Editor, EditorSetup, words
from tests.fakes.model import ModelServer

SKILL = "---\ndescription: Makes a release.\n---\nTag $0 now."
COMMAND = "---\ndescription: Fixes an issue.\nargument-hint: NUMBER\n---\nMend issue $0."


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


async def announced(editor: Editor, names: Iterable[str] = ()) -> dict[str, str]:
    """Wait for an announcement with these names; return its descriptions by name."""
    async with asyncio.timeout(60):
        while True:
            changed = asyncio.Event()
            editor.on_update = lambda _, changed=changed: changed.set()
            updates = [
                update
                for update in editor.updates
                if update.session_update == "available_commands_update"
            ]
            for update in updates[-1:]:
                commands = {each.name: each.description for each in update.available_commands}
                if set(names) <= set(commands):
                    return commands
            await changed.wait()


async def start(setup: EditorSetup, connection: Any) -> str:
    session = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
    return str(session.session_id)


def add_command(folder: Path, name: str) -> None:
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / f"{name}.md").write_text(COMMAND)


def install_plugin(home: Path, folder: Path) -> None:
    write(folder / "skills", "hi", SKILL)
    installer = PluginInstaller(home / "plugins")
    with installer.fetched({"source": "folder", "path": str(folder)}) as review:
        installer.install(review)


async def test_commands_and_skills_are_announced_and_kept_up_to_date(setup: EditorSetup) -> None:
    write(setup.home / "skills", "make-release", SKILL)
    add_command(setup.project / ".claude", "fix")
    async with setup.open() as (editor, connection, _):
        session = await start(setup, connection)
        commands = await announced(editor)
        assert commands["make-release"] == "Makes a release."
        assert commands["fix"] == "Fixes an issue: NUMBER"
        assert {"status", "model", "review", "init"} <= set(commands)
        # An idle editor learns of changes, too.
        write(setup.home / "skills", "survey", SKILL)
        assert "survey" in await announced(editor, ["survey"])
        editor.updates.clear()
        await connection.load_session(cwd=str(setup.project), session_id=session, mcp_servers=[])
        assert {"make-release", "survey"} <= set(await announced(editor))


async def test_skill_of_a_plugin_is_announced_with_its_plugin(
    setup: EditorSetup, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        install_plugin(setup.home, tmp_path / name)
    async with setup.open() as (editor, connection, _):
        session = await start(setup, connection)
        commands = await announced(editor)
        assert {"first:hi", "second:hi"} <= set(commands)
        assert "hi" not in commands
        await setup.ask(connection, session, words("/second:hi v1"))
        assert "Tag v1 now." in setup.question()


async def test_plugin_that_is_installed_later_is_announced_and_runs(
    setup: EditorSetup, tmp_path: Path
) -> None:
    async with setup.gateway(), setup.open() as (editor, connection, _):
        session = await start(setup, connection)
        assert "hi" not in await announced(editor)
        install_plugin(setup.home, tmp_path / "greeter")
        await announced(editor, ["hi"])
        await setup.ask(connection, session, words("/greeter:hi v1"))
        assert "Tag v1 now." in setup.question()


async def test_prompt_invokes_a_command_or_a_skill(setup: EditorSetup) -> None:
    write(setup.home / "skills", "make-release", SKILL)
    add_command(setup.project / ".claude", "fix")
    async with setup.open() as (_, connection, _process):
        session = await start(setup, connection)
        for typed, text in (
            ("/make-release v1", "Tag v1 now."),
            ("/fix 7", "Mend issue 7."),
            ("/review the tests", "Review the changes in this folder"),
        ):
            assert await setup.ask(connection, session, words(typed)) == "end_turn"
            assert text in setup.question()
            assert typed in setup.question()


async def test_unknown_word_with_a_slash_is_sent_as_it_is(setup: EditorSetup) -> None:
    async with setup.open() as (_, connection, _process):
        session = await start(setup, connection)
        assert await setup.ask(connection, session, words("/etc and /usr?")) == "end_turn"
        assert "/etc and /usr?" in setup.question()
