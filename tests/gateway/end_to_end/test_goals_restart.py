"""Goals across kills of the whole gateway, at each call of a model."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from tests.fakes.model_mind import Mind
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess

TURNS = 3
# A turn and a check, each time.
REQUESTS = 2 * TURNS


def is_check(body: Mapping[str, Any]) -> bool:
    return "You judge whether a goal is met" in json.dumps(body["messages"][0])


def stepping(hanging: int = 0) -> Mind:
    """Return a model that needs `TURNS` turns; request number `hanging` gets no answer."""
    numbers = count(1)

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        latency_s = 60.0 if next(numbers) == hanging else 0.0
        if is_check(body):
            is_met = f"step {TURNS}" in json.dumps(body["messages"][-1])
            verdict = {"met": is_met, "evidence": "all steps", "missing": "the next step"}
            return ReplyScript(text=json.dumps(verdict), latency_s=latency_s)
        replies = [message for message in body["messages"] if message["role"] == "assistant"]
        return ReplyScript(text=f"step {len(replies) + 1}", latency_s=latency_s)

    return mind


@pytest.mark.parametrize("hanging", range(1, REQUESTS + 1))
async def test_kill_loses_and_repeats_no_turn(alone: GatewayProcess, hanging: int) -> None:
    alone.model.mind = stepping(hanging)
    await alone.start()
    await alone.api.user_says(OWNER, "/goal take all steps")
    await alone.until(lambda: len(alone.model.requests) == hanging)
    # What came before the hanging call is in the chat, so that no send is in doubt.
    await alone.posted()
    await alone.kill()
    alone.model.mind = stepping()
    await alone.start()
    await alone.until(lambda: "The goal is met" in alone.api.answers(OWNER)[-1])
    await alone.idle()
    begun, *answers = alone.api.answers(OWNER)
    assert begun.startswith("Goal set.")
    assert answers == [*(f"step {n}" for n in range(1, TURNS + 1)), "🎯 The goal is met: all steps"]
    assert len(alone.model.requests) == REQUESTS + 1


async def test_goal_paused_before_a_kill_stays_paused(alone: GatewayProcess) -> None:
    alone.model.mind = stepping(2)
    await alone.start()
    await alone.api.user_says(OWNER, "/goal take all steps")
    await alone.until(lambda: len(alone.model.requests) == 2)
    await alone.api.user_says(OWNER, "/goal pause")
    await alone.until(lambda: "is paused" in alone.api.answers(OWNER)[-1])
    await alone.kill()
    await alone.start()
    await alone.idle()
    assert len(alone.model.requests) == 2
    alone.model.mind = stepping()
    await alone.api.user_says(OWNER, "/goal resume")
    await alone.until(lambda: "The goal is met" in alone.api.answers(OWNER)[-1])
