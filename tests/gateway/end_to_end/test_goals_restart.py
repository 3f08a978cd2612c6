"""Goals across kills of the whole gateway, at each call of a model."""

import pytest

from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.gateway.end_to_end.goal_steps import TURNS, stepping

# Each turn is followed by a check.
REQUESTS = 2 * TURNS


@pytest.mark.parametrize("hanging", range(1, REQUESTS + 1))
async def test_kill_loses_and_repeats_no_turn(alone: GatewayProcess, hanging: int) -> None:
    alone.model.mind = stepping(hanging)
    await alone.start()
    await alone.api.user_says(OWNER, "/goal take all steps")
    await alone.until(lambda: len(alone.model.requests) == hanging)
    # All text before the hanging call is in the chat, so that no send is ambiguous.
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
