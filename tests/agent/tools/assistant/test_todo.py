from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.errors import ToolError
from agent.tools.assistant.todo import Todo, current
from agent.tools.base import CallContext
from agent.types import Message, Text, assistant, user
from tests.agent.props import call as tool_call
from tests.agent.props import calls, run_turn, scripted, task

ITEMS = [
    {"content": "read", "status": "completed"},
    {"content": "write\nit", "status": "in_progress"},
    {"content": "land"},
]
SHOWN = "☑ read\n▶ write it\n☐ land"


async def test_person_sees_the_list_and_model_sees_the_progress(call: CallContext) -> None:
    result = await Todo().run({"items": ITEMS}, call)
    assert result.for_user == SHOWN
    assert "1 of 3" in result.for_model


async def test_empty_list_is_accepted(call: CallContext) -> None:
    assert "empty" in (await Todo().run({"items": []}, call)).for_model


@pytest.mark.parametrize("items", [[{"content": "x" * 501}], [{"content": "x"}] * 101])
async def test_invalid_todo_list_is_rejected(
    call: CallContext, items: list[dict[str, Any]]
) -> None:
    with pytest.raises(ToolError):
        await Todo().run({"items": items}, call)


async def test_invalid_status_is_explained_to_the_model(tmp_path: Path) -> None:
    wrong = calls(tool_call("todo", items=[{"content": "a", "status": "soon"}]))
    agent, _ = scripted([wrong, "hm"], tmp_path)
    _, result = await run_turn(agent, task(agent))
    assert "items.0.status must be one of" in result.messages[1].text
    assert current(result.messages) is None


async def test_newest_list_of_a_conversation_is_current(tmp_path: Path) -> None:
    first = calls(tool_call("todo", "1", items=[{"content": "old"}]))
    second = calls(tool_call("TodoWrite", "2", todos=ITEMS))
    agent, _ = scripted([first, second, "done"], tmp_path)
    seen, result = await run_turn(agent, task(agent))
    assert current(result.messages) == SHOWN
    shown = [event.content for event in seen if isinstance(event, events.ToolResulted)]
    assert shown == ["☐ old", SHOWN]


def test_new_conversation_has_no_list() -> None:
    assert current([user("hello"), assistant("hi")]) is None


def test_failed_or_invalid_list_is_ignored() -> None:
    good = assistant("", (tool_call("todo", "1", items=ITEMS),))
    odd = assistant("", (tool_call("todo", "2", items="all"), tool_call("todo", "3", items=[5])))
    failed = assistant("", (tool_call("todo", "4", items=[{"content": "x"}]),))
    refused = Message("tool", (Text("no"),), (), "4", is_error=True)
    assert current([good, odd, failed, refused]) == SHOWN


def test_emptied_list_is_not_a_list() -> None:
    full = assistant("", (tool_call("todo", "1", items=ITEMS),))
    empty = assistant("", (tool_call("todo", "2", items=[]),))
    assert current([full, empty]) is None


@pytest.mark.parametrize("item", ["write", {"step": "write"}, {"text": "write"}])
async def test_items_may_be_plain_or_named_as_in_other_programs(item: Any, tmp_path: Path) -> None:
    plan = calls(tool_call("functions.update_plan", plan=[item]))
    agent, _ = scripted([plan, "done"], tmp_path)
    seen, result = await run_turn(agent, task(agent))
    assert current(result.messages) == "☐ write"
    assert [event.content for event in seen if isinstance(event, events.ToolResulted)] == [
        "☐ write"
    ]
