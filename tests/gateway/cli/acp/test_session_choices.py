"""Model and mode of a session, chosen from an editor's menus."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.control.client import ControlClient
from tests.fakes.editor import KEY, Editor, EditorSetup, acp, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        setup.add_model("big", "openai/large")
        yield setup


def values_of(options: list[Any]) -> dict[str, str]:
    return {option.id: option.current_value for option in options}


def announcements(editor: Editor) -> list[str]:
    kinds = ("config_option_update", "current_mode_update")
    return [update.session_update for update in editor.updates if update.session_update in kinds]


async def test_model_is_chosen_and_stored_with_the_session(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        session = opened.session_id
        (model, _mode) = opened.config_options
        assert values_of(opened.config_options) == {"model": "default", "mode": "ask"}
        assert [option.value for option in model.options][:2] == ["default", "big"]
        answer = await connection.set_config_option(
            config_id="model", session_id=session, value="big"
        )
        assert values_of(answer.config_options)["model"] == "big"
        await setup.ask(connection, session, words("hi"))
        assert setup.model.requests[-1].body["model"] == "large"
        # A command changes the same option, and the editor is notified once.
        editor.updates.clear()
        await setup.ask(connection, session, words("/model quick"))
        await setup.ask(connection, session, words("hi"))
        assert announcements(editor) == ["config_option_update"]
        (update,) = (
            item for item in editor.updates if item.session_update == announcements(editor)[0]
        )
        assert values_of(update.config_options)["model"] == "quick"
    async with setup.open() as (_, connection, _process):
        loaded = await connection.load_session(
            cwd=str(setup.project), session_id=session, mcp_servers=[]
        )
        assert values_of(loaded.config_options) == {"model": "quick", "mode": "ask"}


@pytest.mark.programs("bwrap")
async def test_mode_is_synchronized_between_menus_commands_and_older_editors(
    setup: EditorSetup,
) -> None:
    run = ReplyScript(tool_calls=(Call("exec", {"command": "touch made"}),))
    async with setup.open() as (editor, connection, _):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        session = opened.session_id
        assert opened.modes.current_mode_id == "ask"
        await connection.set_session_mode(session_id=session, mode_id="accept-edits")
        assert announcements(editor) == ["current_mode_update", "config_option_update"]
        await connection.set_config_option(config_id="mode", session_id=session, value="plan")
        setup.model.script(run, "I may not.")
        await setup.ask(connection, session, words("make it"))
        assert not (setup.project / "made").exists()
        await setup.ask(connection, session, words("/mode auto"))
        setup.model.script(run, "Made.")
        await setup.ask(connection, session, words("make it"))
        assert (setup.project / "made").exists()
        assert not editor.questions
        assert announcements(editor)[-2:] == ["current_mode_update", "config_option_update"]


async def test_session_begins_with_the_mode_of_the_command_line(
    setup: EditorSetup,
) -> None:
    async with setup.open("--permission-mode", "plan") as (_, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        assert opened.modes.current_mode_id == "plan"


async def test_plan_is_carried_out_in_the_mode_that_the_person_chooses(
    setup: EditorSetup,
) -> None:
    async with setup.open("--permission-mode", "plan") as (editor, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        editor.answer = "a"
        setup.model.script("You are welcome.", "# Plan\n\n1. Change a.py.", "Changed.")
        await setup.ask(connection, opened.session_id, words("thanks"))
        assert not editor.questions
        await setup.ask(connection, opened.session_id, words("plan it"))
        ((_, options),) = editor.questions
        assert options == ["b", "a", "k"]
        assert "Changed." in editor.text()
        modes = [
            update.current_mode_id
            for update in editor.updates
            if update.session_update == "current_mode_update"
        ]
        assert modes == ["ask"]


async def test_plan_without_an_answer_waits(setup: EditorSetup) -> None:
    async with setup.open("--permission-mode", "plan") as (editor, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        editor.answer = ""
        setup.model.script("# Plan\n\n1. Change a.py.", "# Plan\n\n1. Change b.py.")
        for text in ("plan it", "another file"):
            await setup.ask(connection, opened.session_id, words(text))
        assert len(editor.questions) == 2
        assert len(setup.model.requests) == 2


async def test_plan_is_carried_out_once_if_it_is_chosen_elsewhere_first(
    setup: EditorSetup,
) -> None:
    async with (
        setup.gateway(),
        setup.open("--permission-mode", "plan") as (editor, connection, _process),
    ):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        session = opened.session_id

        async def build_elsewhere() -> None:
            client = await ControlClient.connect(setup.home / "kore.sock")
            assert client is not None
            await client.send_message(session, "/build free")
            while await client.turn_choices(session):
                await asyncio.sleep(0.05)

        editor.before_answer, editor.answer = build_elsewhere, "a"
        setup.model.script("# Plan\n\n1. Change a.py.", "Changed.", "You are welcome.")
        await setup.ask(connection, session, words("plan it"))
        assert "no plan here" in editor.text()
        await setup.ask(connection, session, words("thanks"))
        assert len(setup.model.requests) == 3


async def test_plan_kept_for_later_is_not_offered_again(setup: EditorSetup) -> None:
    async with setup.open("--permission-mode", "plan") as (editor, connection, _process):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        editor.answer = "k"
        setup.model.script("# Plan\n\n1. Change a.py.")
        for text in ("plan it", "/status"):
            await setup.ask(connection, opened.session_id, words(text))
        assert len(editor.questions) == 1
        assert "Still in plan mode" in editor.text()


async def test_unknown_choice_is_reported_in_one_sentence(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
        for option, value, sentence in (
            ("model", "nothing", "nothing"),
            ("mode", "yolo", "expected one of plan, ask"),
            ("mode", True, "expected one of plan, ask"),
            ("weather", "fine", "there is no option weather; expected model or mode"),
        ):
            with pytest.raises(acp.RequestError, match=sentence):
                await connection.set_config_option(
                    config_id=option, session_id=opened.session_id, value=value
                )
        assert not announcements(editor)
