"""Goals whose turns run in workers: killed workers, a killed front, and changes in between."""

import pytest

from tests.gateway.end_to_end.goal_steps import TURNS, stepping
from tests.gateway.workers.worker_group import WorkerGroup

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Turns are the odd requests, checks the even ones.
_TURN_REQUESTS = range(1, 2 * TURNS, 2)
_ANSWERS = [*(f"step {n}" for n in range(1, TURNS + 1)), "🎯 The goal is met: all steps"]


@pytest.mark.parametrize("hanging", _TURN_REQUESTS)
async def test_killed_worker_loses_and_repeats_no_turn(
    group: WorkerGroup, chat: int, hanging: int
) -> None:
    group.model.mind = stepping(hanging)
    await group.api.user_says(chat, "/goal take all steps")
    await group.front.until(lambda: len(group.model.requests) == hanging)
    killed = await group.holder(chat)
    group.model.mind = stepping()
    await group.kill(killed)
    await group.front.until(lambda: group.api.answers(chat)[-1] == _ANSWERS[-1])
    await group.idle()
    begun, *answers = group.api.answers(chat)
    assert begun.startswith("Goal set.")
    assert answers == _ANSWERS
    assert len(group.model.requests) == 2 * TURNS + 1
    await group.start_workers(killed)


async def test_killed_front_repeats_at_most_the_check(group: WorkerGroup, chat: int) -> None:
    group.model.mind = stepping(2)
    await group.api.user_says(chat, "/goal take all steps")
    await group.front.until(lambda: len(group.model.requests) == 2)
    await group.front.until(lambda: group.api.answers(chat)[1:] == ["step 1"])
    group.model.mind = stepping()
    await group.front.kill()
    await group.front.start()
    await group.front.until(lambda: group.api.answers(chat)[-1] == _ANSWERS[-1])
    await group.idle()
    assert group.api.answers(chat)[1:] == _ANSWERS
    assert len(group.model.requests) == 2 * TURNS + 1


async def test_pauses_and_resumes_in_quick_succession_run_one_turn_at_a_time(
    group: WorkerGroup, chat: int
) -> None:
    group.model.mind = stepping()
    await group.api.user_says(chat, "/goal take all steps")
    for _ in range(5):
        await group.api.user_says(chat, "/goal pause")
        await group.api.user_says(chat, "/goal resume")
    await group.idle()
    if "The goal is met" not in group.api.answers(chat)[-1]:
        await group.answers_to(chat, "/goal resume")
    steps = [text for text in group.api.answers(chat) if text.startswith("step ")]
    assert steps == [f"step {n}" for n in range(1, len(steps) + 1)]
    assert len(steps) >= TURNS
    person = f"telegram:{chat}"
    assert await group.rows("goal", "state", "next_event", principal=person) == [("met", None)]
