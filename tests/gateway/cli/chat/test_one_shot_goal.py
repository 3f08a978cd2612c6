"""Goals of single turns: turns follow each other in one run until the goal is met or paused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model_script import ReplyScript
from tests.gateway.cli.chat.long_task_scene import Place


def stepping(turns: int, **verdict: Any) -> Any:
    """Return a model whose goal is met after this number of turns."""

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        messages = body["messages"]
        if "You judge whether a goal is met" in json.dumps(messages[0]):
            is_met = f"step {turns}" in json.dumps(messages[-1])
            text = {"met": is_met, "evidence": "all steps", "missing": "the next step", **verdict}
            return ReplyScript(text=json.dumps(text))
        replies = [message for message in messages if message["role"] == "assistant"]
        return ReplyScript(text=f"step {len(replies) + 1}")

    return mind


async def test_run_ends_when_the_goal_is_met(place: Place) -> None:
    place.server.mind = stepping(3)
    code, err = await place.run("-m", "/goal take all steps")
    assert code == 0, err
    assert "The goal is met: all steps" in err
    assert "turn 3 of 20" in err
    assert len(place.server.requests) == 6


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [("/goal take all steps --turns 2", {}, 5), ("/goal paint it", {"asks": True}, 4)],
)
async def test_exit_code_names_the_reason_of_a_pause(
    place: Place, text: str, verdict: dict[str, Any], code: int
) -> None:
    place.server.mind = stepping(9, **verdict)
    assert (await place.run("-m", text))[0] == code


async def test_json_has_the_goal_and_the_text_of_all_turns(place: Place) -> None:
    place.server.mind = stepping(2)
    code, out = await place.run_verb(
        *("agent", "-m", "/goal take all steps", "--output-format", "json")
    )
    summary = json.loads(out)
    assert code == 0
    assert summary["text"] == "step 1\n\nstep 2"
    assert summary["goal"]["state"] == "met"
    assert summary["goal"]["turns"] == 2


async def test_answer_of_another_shape_is_asked_for_again_once_the_goal_is_met(
    place: Place, tmp_path: Path
) -> None:
    place.server.mind = stepping(2)
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    code, err = await place.run("-m", "/goal take all steps", "--output-schema", str(schema))
    assert code == 1
    assert err.count("asking the model again") == 2
