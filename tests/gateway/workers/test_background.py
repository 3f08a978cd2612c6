"""Commands and sub-agents that outlast a worker's turn."""

import json
import re
import shutil
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.control.client import ControlClient
from tests.fakes.model_mind import echo, person_text
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import OWNER
from tests.gateway.workers.worker_group import WorkerGroup
from tests.processes import has_ended, lasting_command

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
MAX_PARALLEL = 2
SECTIONS = {"subagents": {"max_parallel": MAX_PARALLEL}}


def background(command: str) -> ReplyScript:
    return ReplyScript(tool_calls=(Call("exec", {"command": command, "background": True}),))


def process_output(number: str = "1") -> ReplyScript:
    return ReplyScript(tool_calls=(Call("process", {"action": "output", "id": number}),))


def last_result(group: WorkerGroup) -> str:
    results = [
        message
        for message in group.model.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    return str(results[-1]["content"])


async def begin(group: WorkerGroup, command: str) -> int:
    """Start the command in the background for the owner.

    Return the number of the worker that the conversation is pinned to.
    """
    await group.answers_to(OWNER, "/new")
    group.model.script(background(command), "It runs.")
    await group.api.user_says(OWNER, "run it")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "It runs.")
    await group.idle()
    ((number,),) = await group.rows("session", "worker", id=await group.session_of(OWNER))
    assert isinstance(number, int)
    return number


async def test_next_turn_reads_command_output_and_sees_its_end(
    group: WorkerGroup,
) -> None:
    end = group.workspace / "end"
    number = await begin(group, f"while [ ! -e {end} ]; do echo counting; sleep 0.05; done")
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


async def test_command_that_died_with_its_worker_is_reported_once(group: WorkerGroup) -> None:
    command = lasting_command()
    number = await begin(group, command)
    worker = group.worker_with(number)
    group.model.script("That is a pity.")
    await group.kill(worker)
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "That is a pity.")
    await group.start_workers(worker)
    assert await has_ended(command)
    assert (await group.answers_to(OWNER, "well"))[-1] == "echo: well"
    text = json.dumps(group.model.requests[-1].body["messages"])
    assert text.count("ended with the process that ran them") == 1
    assert group.api.answers(OWNER).count("That is a pity.") == 1


async def test_stopped_worker_reports_its_ended_commands(
    group: WorkerGroup,
) -> None:
    command = lasting_command()
    worker = group.worker_with(await begin(group, command))
    group.model.script("So it is gone.")
    worker.signal(signal.SIGTERM)
    assert await worker.exit_code() == 0
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "So it is gone.")
    await group.start_workers(worker)
    assert await has_ended(command)


def sharing(body: Mapping[str, Any]) -> ReplyScript:
    """Start sub-agents on `share N` (in the background) or `wait for N` (awaited).

    Each works until the server releases its reply.
    """
    last = body["messages"][-1]
    text = person_text(last)
    if last["role"] == "tool":
        return ReplyScript(text="Sent out.")
    if "not from the person" in str(last["content"]):
        return ReplyScript(text="One has worked.")
    if text.startswith("part "):
        return ReplyScript(text=f"did {text}", waits_at=0)
    if order := re.match(r"(share|wait for) (\d+)", text):
        work = {"description": "work", "background": order[1] == "share"}
        parts = (f"part {n} of {order[0]}" for n in range(int(order[2])))
        return ReplyScript(
            tool_calls=tuple(Call("task", {**work, "prompt": part}) for part in parts)
        )
    return echo(body)


async def let_all_work(group: WorkerGroup, count: int) -> None:
    """Let `count` sub-agents finish one after another, with at most `MAX_PARALLEL` at a time."""
    for done in range(count):
        room = min(MAX_PARALLEL, count - done)
        await group.front.until(lambda room=room: group.model.waiting >= room)
        assert group.model.waiting == room
        group.model.let_one_go()
        await group.front.until(lambda: group.model.waiting < MAX_PARALLEL)


async def test_subagents_take_turns_and_wake_their_waiting_caller(group: WorkerGroup) -> None:
    group.model.mind = sharing
    await group.api.user_says(OWNER, "wait for 4")
    await let_all_work(group, 4)
    await group.idle()
    assert group.api.answers(OWNER)[-1] == "Sent out."
    assert "did part 3 of wait for 4" in str(group.model.requests[-1].body["messages"])


async def test_subagents_of_a_conversation_are_limited_across_workers(
    group: WorkerGroup,
) -> None:
    group.model.mind = sharing
    client = await ControlClient.connect(group.front.home / "kore.sock")
    assert client is not None
    await group.answers_to(OWNER, "/new")
    await group.api.user_says(OWNER, "share 3")
    await group.front.until(lambda: group.api.answers(OWNER)[-1] == "Sent out.")
    session = await group.session_of(OWNER)
    # Messages over the front's control socket are answered by the front itself.
    await client.send_message(session, "share 3")

    async def all_are_sent_out() -> bool:
        return len(await group.rows("task", "id", root_session=session)) == 6

    await group.until(all_are_sent_out)
    turns = await group.rows("turn", "worker", session=session, order="id")
    assert [worker is None for (worker,) in turns] == [False, True]
    await let_all_work(group, 6)

    async def all_have_worked() -> bool:
        states = await group.rows("task", "state", root_session=session)
        return states == [("done",)] * 6

    await group.until(all_have_worked)
    await group.front.until(lambda: "One has worked." in group.api.answers(OWNER))
