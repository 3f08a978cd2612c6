"""What a worker's turn leaves running: commands, and sub-agents."""

import asyncio
import json
import shutil
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes.model_mind import echo, person_text
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import press, wait_for_questions
from tests.gateway.end_to_end.gateway_process import OWNER
from tests.gateway.workers.worker_group import WorkerGroup
from tests.processes import has_ended, lasting_command, processes

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
MOST = 2
SECTIONS = {"subagents": {"max_parallel": MOST}}
# Of one that has a conversation's commands and died.
LOST = "ended with"


def background(command: str) -> ReplyScript:
    return ReplyScript(tool_calls=(Call("exec", {"command": command, "background": True}),))


def process_output(number: str = "1") -> ReplyScript:
    return ReplyScript(tool_calls=(Call("process", {"action": "output", "id": number}),))


def last_result(group: WorkerGroup) -> str:
    results = [one for one in group.model.requests[-1].body["messages"] if one["role"] == "tool"]
    return str(results[-1]["content"])


async def begin(group: WorkerGroup, command: str) -> int:
    """The owner has this run in the background; the number of the worker that it is pinned to."""
    await group.answers_to(OWNER, "/new")
    group.model.script(background(command), "It runs.")
    await group.api.user_says(OWNER, "run it")
    (question,) = await wait_for_questions(group.front)
    await press(group.front, question, "Allow once")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "It runs.")
    await group.idle()
    ((number,),) = await group.rows("session", "worker", id=await group.session_of(OWNER))
    assert isinstance(number, int)
    return number


async def test_the_next_turn_reads_what_a_command_prints_and_is_told_of_its_end(
    group: WorkerGroup,
) -> None:
    end = group.workspace / "end"
    number = await begin(group, f"echo counting; while [ ! -e {end} ]; do sleep 0.05; done")
    for _ in range(2):
        group.model.script(process_output(), ReplyScript(text="I looked.", waits_at=0))
        await group.api.user_says(OWNER, "look")
        assert await group.holder(OWNER) is group.worker_with(number)
        await group.front.until(lambda: group.model.waiting)
        assert "counting" in last_result(group)
        group.model.let_go()
        await group.idle()
    group.model.script("It has ended.")
    end.touch()
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "It has ended.")
    await group.idle()
    assert await group.rows("session", "id", worker=number) == []


async def test_a_command_that_died_with_its_worker_is_told_of_once(group: WorkerGroup) -> None:
    command = lasting_command()
    number = await begin(group, command)
    worker = group.worker_with(number)
    group.model.script("That is a pity.")
    await group.kill(worker)
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "That is a pity.")
    await group.start_workers(worker)
    assert await has_ended(command)
    assert (await group.answers_to(OWNER, "well"))[-1] == "echo: well"
    told = json.dumps(group.model.requests[-1].body["messages"])
    print(told[-1500:])
    assert group.api.answers(OWNER).count("That is a pity.") == 1


def several(count: int, *, is_background: bool) -> Mapping[str, ReplyScript]:
    """Calls that send out so many sub-agents."""
    calls = tuple(
        Call("task", {"description": "work", "prompt": f"part {n}", "background": is_background})
        for n in range(count)
    )
    return {"share it": ReplyScript(tool_calls=calls)}


@pytest.mark.parametrize("is_background", [False, True])
async def test_no_more_sub_agents_of_a_conversation_work_at_a_time_than_may(
    group: WorkerGroup, chat: int, is_background: bool
) -> None:
    count = 5
    at_work: set[str] = set()
    most = 0

    def mind(body: Mapping[str, Any]) -> ReplyScript:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return ReplyScript(text="All have worked.")
        said = person_text(last)
        if said == "share it":
            return several(count, is_background=is_background)[said]
        if said.startswith("part "):
            return ReplyScript(text=f"did {said}", waits_at=0)
        if "Not from the person" in str(last["content"]):
            return ReplyScript(text="One has worked.")
        return echo(body)

    group.model.mind = mind
    await group.api.user_says(chat, "share it")
    for n in range(count):
        room = min(MOST, count - n)
        await group.front.until(lambda room=room: group.model.waiting >= room)
        # The others have had the time to begin, were there room for them.
        holders = await group.rows("turn", "worker", "id", state="running")
        print(n, group.model.waiting, holders)
        assert group.model.waiting <= MOST
        group.model._passes += 1
        group.model.changed()
    await group.idle()
