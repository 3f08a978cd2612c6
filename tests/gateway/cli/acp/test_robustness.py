"""Editors that crash, that share a session, or that send too much."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.editor import KEY, PNG, EditorSetup, acp, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

TOUCH = ReplyScript(tool_calls=(Call("exec", {"command": "touch made"}),))


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


@pytest.mark.programs("bwrap")
async def test_question_of_a_dead_editor_is_asked_again(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        editor.wait_at_question = asyncio.Event()
        setup.model.script(TOUCH, "Made.")
        prompt = asyncio.create_task(setup.ask(connection, session, words("make it")))
        await asyncio.wait_for(editor.wait_at_question.wait(), 60)
        # The state after kill -9 of an editor: a closed pipe.
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 60) == 0
        with pytest.raises(ConnectionError):
            await prompt
    assert not (setup.project / "made").exists()
    async with setup.open() as (editor, connection, _):
        await connection.load_session(cwd=str(setup.project), session_id=session, mcp_servers=[])
        setup.model.script("Here I am.")
        async with asyncio.timeout(60):
            assert await setup.ask(connection, session, words("are you there?")) == "end_turn"
        # The first editor's question was asked here, and answered with yes.
        assert len(editor.questions) == 1
        assert (setup.project / "made").exists()
        assert editor.text().endswith("Here I am.")


async def test_editors_share_a_session(setup: EditorSetup) -> None:
    async with setup.open() as (_, first, _process):
        session = (await first.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        async with setup.open() as (_editor, second, _other):
            await second.load_session(cwd=str(setup.project), session_id=session, mcp_servers=[])
            setup.model.script("One.", "Two.")
            async with asyncio.timeout(60):
                endings = await asyncio.gather(
                    setup.ask(first, session, words("first words")),
                    setup.ask(second, session, words("second words")),
                )
            assert endings == ["end_turn", "end_turn"]
            setup.model.script("Both.")
            await setup.ask(first, session, words("and?"))
            sent = setup.model.requests[-1].raw.decode()
            assert "first words" in sent
            assert "second words" in sent


async def test_huge_prompt_is_answered_or_rejected_in_a_sentence(
    setup: EditorSetup,
) -> None:
    async with setup.open() as (editor, connection, process), asyncio.timeout(100):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        picture = base64.b64encode(PNG + b"\0" * 30_000_000).decode()
        with pytest.raises(acp.RequestError, match="expected a PNG, JPEG, GIF or WebP of at most"):
            await setup.ask(connection, session, acp.image_block(picture, "image/png"))
        for blocks in ([words("x " * 2_500_000)], [words("a")] * 10_000):
            setup.model.script("Much.")
            assert await setup.ask(connection, session, *blocks) == "end_turn"
        # A summary of the first prompt may have used up the second scripted answer.
        assert editor.text().startswith("Much.")
        assert process.returncode is None
