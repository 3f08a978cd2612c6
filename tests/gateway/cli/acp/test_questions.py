"""Questions from MCP servers to a person at an editor, and questions that end unanswered."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import mcp_server
from tests.fakes.editor import KEY, EditorSetup, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

pytestmark = pytest.mark.programs("bwrap")

FORM = {"elicitation": {"form": {}}}
BOTH = {"elicitation": {"form": {}, "url": {}}}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        server = {"command": sys.executable, "args": [mcp_server.__file__, "asks"]}
        setup.set_config(mcp_servers={"stand": server})
        yield setup


def question(schema: dict[str, Any], message: str = "Which one?") -> ReplyScript:
    form = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    arguments = {"message": message, "requestedSchema": form}
    return ReplyScript(tool_calls=(Call("mcp__stand__ask", arguments),))


async def answer_of(setup: EditorSetup, connection: Any, script: ReplyScript) -> dict[str, Any]:
    """Return the answer that the server received and reports to the model."""
    opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
    setup.model.script(script, "So it is.")
    assert await setup.ask(connection, opened.session_id, words("ask me")) == "end_turn"
    results = [
        message
        for message in setup.model.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    text = str(results[-1]["content"])
    answer: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return answer


async def test_form_is_shown_by_the_editor(setup: EditorSetup) -> None:
    async with setup.open(capabilities=FORM) as (editor, connection, _):
        editor.elicited = {"action": "accept", "content": {"answer": "blue"}}
        answer = await answer_of(setup, connection, question({"enum": ["red", "blue"]}))
        assert answer == {"action": "accept", "content": {"value": "blue"}}
        ((message, mode),) = editor.elicitations
        assert "the MCP server stand asks" in message
        assert "Which one?" in message
        assert mode.requested_schema.properties["answer"].enum == ["red", "blue"]
        # Free text, and a value that is not among the choices.
        editor.elicited = {"action": "accept", "content": {"answer": "Ann"}}
        answer = await answer_of(setup, connection, question({"type": "string"}))
        assert answer == {"action": "accept", "content": {"value": "Ann"}}
        answer = await answer_of(setup, connection, question({"enum": ["red", "blue"]}))
        assert answer["action"] == "decline"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusal_declines(setup: EditorSetup, action: str) -> None:
    async with setup.open(capabilities=FORM) as (editor, connection, _):
        editor.elicited = {"action": action}
        answer = await answer_of(setup, connection, question({"type": "string"}))
        assert answer["action"] == "decline"


async def test_page_is_opened_by_the_editor(setup: EditorSetup) -> None:
    arguments = {
        "mode": "url",
        "message": "Log in",
        "url": "https://example.com/a",
        "elicitationId": "1",
    }
    call = ReplyScript(tool_calls=(Call("mcp__stand__ask", arguments),))
    async with setup.open(capabilities=BOTH) as (editor, connection, _):
        editor.elicited = {"action": "accept"}
        assert (await answer_of(setup, connection, call))["action"] == "accept"
        ((message, mode),) = editor.elicitations
        assert str(mode.url) == "https://example.com/a"
        assert "example.com" in message
    async with setup.open(capabilities=FORM) as (editor, connection, _):
        editor.elicited = {"action": "accept"}
        assert (await answer_of(setup, connection, call))["action"] == "accept"
        ((_, mode),) = editor.elicitations
        assert not mode.requested_schema.properties


async def test_editor_without_forms_gets_choices_as_permissions(
    setup: EditorSetup,
) -> None:
    async with setup.open() as (editor, connection, _):
        editor.answers = ["once", "choice-1"]
        answer = await answer_of(setup, connection, question({"enum": ["red", "blue"]}))
        assert answer == {"action": "accept", "content": {"value": "blue"}}
        editor.answers = ["once"]
        answer = await answer_of(setup, connection, question({"type": "string"}))
        assert answer["action"] == "decline"
        assert "ask again in a terminal: kore agent -r" in editor.text()


async def test_password_is_not_requested_in_an_editor(setup: EditorSetup) -> None:
    async with setup.open(capabilities=BOTH) as (editor, connection, _):
        script = question({"type": "string", "title": "Password"})
        assert (await answer_of(setup, connection, script))["action"] == "decline"
        assert not editor.elicitations
        assert "looks like a password" in editor.text()


async def test_turn_is_cancelled_during_a_question(setup: EditorSetup) -> None:
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        event = asyncio.Event()
        editor.wait_at_question = event
        setup.model.script(
            ReplyScript(tool_calls=(Call("exec", {"command": "touch made"}),)), "Never."
        )
        prompt = asyncio.create_task(setup.ask(connection, session, words("make it")))
        await asyncio.wait_for(event.wait(), 60)
        await connection.cancel(session_id=session)
        assert await asyncio.wait_for(prompt, 60) == "cancelled"
        assert editor.unended_calls() == []
        assert not (setup.project / "made").exists()


@pytest.mark.parametrize("answer", ["once", "deny"])
async def test_call_of_a_subagent_is_closed_after_its_question(
    setup: EditorSetup, answer: str
) -> None:
    task = {"description": "work", "prompt": "run it", "background": False}
    async with setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        editor.answer = answer
        setup.model.script(
            ReplyScript(tool_calls=(Call("task", task),)),
            ReplyScript(tool_calls=(Call("exec", {"command": "touch made; curl x"}),)),
            "I ran it.",
            "The sub-agent ran it.",
        )
        assert await setup.ask(connection, session, words("have it run")) == "end_turn"
        assert editor.questions
        assert editor.unended_calls() == []
        (question,) = {call.tool_call_id for call, _ in editor.questions}
        state = "failed" if answer == "deny" else "completed"
        assert (question, state) in editor.calls()
