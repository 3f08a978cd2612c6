from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.tools.assistant.ask_user import AskUser
from agent.tools.base import CallContext
from agent.types import ToolResult, user
from tests.agent.props import answers, call, calls, results, run_turn, scripted, task

COLOURS = {"question": "Which colour?", "options": ["red", "blue"]}


async def words(call: CallContext, *questions: dict[str, Any]) -> str:
    result = await AskUser().run({"questions": list(questions)}, call)
    assert result.ends_with is not None
    return result.ends_with


async def test_options_of_one_question_are_numbered(call: CallContext) -> None:
    assert await words(call, COLOURS) == "Which colour?\n\n1. red\n2. blue"


async def test_question_without_options_has_no_list(call: CallContext) -> None:
    assert await words(call, {"question": " Why\nnot? "}) == "Why not?"


async def test_several_questions_are_numbered_and_their_options_lettered(
    call: CallContext,
) -> None:
    shown = await words(call, COLOURS, {"question": "When?"})
    assert shown.split("\n") == ["1. Which colour?", "   - a) red", "   - b) blue", "2. When?"]


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"question": " "}],
        [{"question": "a", "options": [""]}],
        [{"question": "a"}] * 11,
        [{"question": "a", "options": ["b"] * 27}],
        [{"question": "a" * 1001}],
    ],
)
async def test_unanswerable_questions_are_rejected(
    call: CallContext, questions: list[dict[str, Any]]
) -> None:
    with pytest.raises(ToolError):
        await AskUser().run({"questions": questions}, call)


async def test_question_ends_the_turn_with_its_text(tmp_path: Path) -> None:
    planned = calls(call("ask_user", questions=[COLOURS]), text="Let me ask.")
    agent, model = scripted([planned, "never said"], tmp_path)
    seen, result = await run_turn(agent, task(agent))
    assert result.text == "Let me ask.\n\nWhich colour?\n\n1. red\n2. blue"
    assert (result.success, result.signal, result.signal_reason) == (
        True,
        "DECIDE",
        load_prompt("asked"),
    )
    assert [m.role for m in result.messages] == ["assistant", "tool", "assistant"]
    assert len(model.requests) == 1
    text = "".join(event.text for event in seen if isinstance(event, events.TextDelta))
    assert text == result.text


async def test_answer_is_matched_to_its_question(tmp_path: Path) -> None:
    planned = calls(call("ask_user", questions=[COLOURS]))
    agent, model = scripted([planned, "Blue it is."], tmp_path)
    message = user("paint it")
    _, first = await run_turn(agent, task(agent, [message]))
    _, second = await run_turn(agent, task(agent, [message, *first.messages, user("2")]))
    assert (second.text, second.signal) == ("Blue it is.", None)
    assert [m.text for m in model.requests[1].messages][-2:] == [first.text, "2"]


async def test_calls_next_to_a_question_run_before_the_turn_ends(tmp_path: Path) -> None:
    planned = calls(
        call("ask_user", "q1", questions=[{"question": "A?"}]),
        call("act", "c1"),
        call("ask_user", "q2", questions=[{"question": "B?"}]),
    )
    agent, _ = scripted([planned], tmp_path, answers("act", "done", "unsafe"))
    _, result = await run_turn(agent, task(agent))
    assert results(result.messages) == [
        load_prompt("asked_person"),
        "done",
        load_prompt("asked_person"),
    ]
    assert result.text == "A?\n\nB?"


async def test_signal_of_the_model_precedes_the_question(tmp_path: Path) -> None:
    planned = calls(
        call("ask_user", questions=[COLOURS]), text="<promise>BLOCKED:no paint</promise>"
    )
    agent, _ = scripted([planned], tmp_path)
    _, result = await run_turn(agent, task(agent))
    assert (result.signal, result.signal_reason) == ("BLOCKED", "no paint")


async def test_question_from_before_a_restart_still_ends_the_turn(tmp_path: Path) -> None:
    planned = calls(call("ask_user", questions=[COLOURS]))
    agent, model = scripted(["never said"], tmp_path)
    known = {"c1": ToolResult("asked", ends_with="Which colour?")}
    _, result = await run_turn(agent, task(agent, [user("go"), planned], known=known))
    assert (result.text, result.signal) == ("Which colour?", "DECIDE")
    assert model.requests == []


async def test_failed_question_leaves_the_turn_to_the_model(tmp_path: Path) -> None:
    agent, _ = scripted([calls(call("ask_user", questions=[])), "Sorry."], tmp_path)
    _, result = await run_turn(agent, task(agent))
    assert (result.text, result.signal) == ("Sorry.", None)
