"""Sub-agents across kills of the whole gateway."""

import json
import shutil
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from tests.fakes.model_mind import Mind, echo, person_text
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import button, push, questions, run, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def send_out(prompt: str, *, background: bool = False) -> Call:
    return Call("task", {"description": "work", "prompt": prompt, "background": background})


async def test_kill_while_a_subagent_waits_for_an_answer_loses_nothing(
    alone: GatewayProcess,
) -> None:
    await alone.start()
    (alone.workspace / "effects").mkdir()
    alone.model.script(
        ReplyScript(tool_calls=(send_out("run it"),)),
        ReplyScript(tool_calls=(run("echo once >> effects/ran"),)),
        "I ran it.",
        "The sub-agent ran it.",
    )
    await alone.api.user_says(OWNER, "have it run")
    (question,) = await wait_for_questions(alone)
    assert "sub-agent general (1)" in question.text
    await alone.idle()
    for _ in range(2):
        await alone.kill()
        await alone.start()
    assert "Allowed once" in await push(alone, question, button(question, "Allow once"))
    await alone.until(lambda: alone.api.answers(OWNER)[-1] == "The sub-agent ran it.")
    await alone.idle()
    assert (alone.workspace / "effects" / "ran").read_text() == "once\n"
    assert len(alone.model.requests) == 4
    assert "I ran it." in json.dumps(alone.model.requests[-1].body)
    assert not questions(alone)


def busy(latency_s: float) -> Mind:
    """Return a model that starts a background sub-agent, which answers after this time."""

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return ReplyScript(text="It works on it.")
        if "not from the person" in last["content"]:
            return ReplyScript(text="The sub-agent looked.")
        match person_text(last):
            case "look in the background":
                return ReplyScript(tool_calls=(send_out("look", background=True),))
            case "look":
                return ReplyScript(text="I looked.", latency_s=latency_s)
        return echo(body)

    return mind


async def test_kill_during_background_work_loses_and_repeats_nothing(
    alone: GatewayProcess,
) -> None:
    alone.model.mind = busy(60)
    await alone.start()
    await alone.api.user_says(OWNER, "look in the background")
    await alone.until(lambda: len(alone.model.requests) == 3)
    await alone.until(lambda: "It works on it." in alone.api.answers(OWNER))
    await alone.kill()
    alone.model.mind = busy(0)
    await alone.start()
    await alone.until(lambda: "The sub-agent looked." in alone.api.answers(OWNER))
    await alone.idle()
    await alone.kill()
    await alone.start()
    await alone.api.user_says(OWNER, "and now?")
    await alone.until(lambda: "echo: and now?" in alone.api.answers(OWNER))
    await alone.idle()
    # The kill may have come between the platform's effect and our record of it.
    answers = [text for text in alone.api.answers(OWNER) if not text.startswith("↻")]
    assert answers == ["It works on it.", "The sub-agent looked.", "echo: and now?"]
    last = json.dumps(alone.model.requests[-1].body)
    assert last.count("I looked.") == 1


def in_a_row(hanging: int) -> Mind:
    """Return a model that has a sub-agent run a command.

    Request number `hanging` gets no answer.
    """
    numbers = count(1)

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        latency_s = 60.0 if next(numbers) == hanging else 0.0
        messages = body["messages"]
        (result, *_) = (person_text(message) for message in messages if message["role"] == "user")
        is_parent, has_result = result == "have it run", messages[-1]["role"] == "tool"
        if has_result:
            text = "The sub-agent ran it." if is_parent else "I ran it."
            return ReplyScript(text=text, latency_s=latency_s)
        call = send_out("run it") if is_parent else run("echo once >> effects/ran")
        return ReplyScript(tool_calls=(call,), latency_s=latency_s)

    return mind


@pytest.mark.parametrize(
    "hanging",
    [
        pytest.param(1, id="before it is sent out"),
        pytest.param(2, id="before it has said anything"),
        pytest.param(3, id="in the middle of its work"),
        pytest.param(4, id="when it is done, before its caller has answered"),
    ],
)
async def test_kill_at_any_step_of_a_subagent_repeats_only_one_model_call(
    alone: GatewayProcess, hanging: int
) -> None:
    alone.model.mind = in_a_row(hanging)
    await alone.start()
    (alone.workspace / "effects").mkdir()
    await alone.answers_to(OWNER, "/auto")
    await alone.api.user_says(OWNER, "have it run")
    await alone.until(lambda: len(alone.model.requests) == hanging)
    await alone.kill()
    alone.model.mind = in_a_row(0)
    await alone.start()
    await alone.until(lambda: "The sub-agent ran it." in alone.api.answers(OWNER))
    await alone.idle()
    assert (alone.workspace / "effects" / "ran").read_text() == "once\n"
    assert len(alone.model.requests) == 5
    last = json.dumps(alone.model.requests[-1].body)
    assert last.count("I ran it.") == 1
    assert alone.api.answers(OWNER).count("The sub-agent ran it.") == 1
