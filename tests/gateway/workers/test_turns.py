"""Turns of workers as seen by people: growing answers, and messages sent meanwhile."""

import asyncio
import json
import signal
from itertools import count, islice, pairwise
from typing import Any

import pytest

from agent.events import Done, TextDelta, ToolResulted, ToolStart
from gateway.control.client import ControlClient
from gateway.core.records import MessageStored, SessionEvent, TurnStored
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.goal_steps import TURNS, stepping
from tests.gateway.end_to_end.summaries import is_summary
from tests.gateway.workers.worker_group import WorkerGroup

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT = "One two three four five six seven eight nine ten eleven twelve."
LONG = "word " * 2_999 + "word"
# Longer than any test waits
ENDLESS = ReplyScript(text=TEXT * 20, pieces=400, chunk_delay_s=0.2)


def slow(text: str = TEXT, **more: Any) -> ReplyScript:
    return ReplyScript(text=text, pieces=4, chunk_delay_s=0.05, **more)


def last_request(group: WorkerGroup) -> list[tuple[str, str]]:
    """Return the roles and contents of the last request, without the system prompt."""
    messages = group.model.requests[-1].body["messages"][1:]
    return [(message["role"], str(message["content"])) for message in messages]


async def test_answer_grows_in_one_message_and_is_followed_live(
    group: WorkerGroup, chat: int
) -> None:
    assert await group.answers_to(chat, "hi") == ["echo: hi"]
    client = await ControlClient.connect(group.front.home / "kore.sock")
    assert client is not None
    look = (Call("list_dir", {"path": "."}),)
    group.model.script(slow("Let me look first, please wait.", tool_calls=look), slow(waits_at=3))
    events: list[SessionEvent] = []
    session = await group.session_of(chat)

    async def follow() -> None:
        async with client.follow_session(session) as news:
            async for event in news:
                events.append(event)

    following = asyncio.create_task(follow())
    await group.front.until(lambda: events)
    await group.api.user_says(chat, "go")
    worker = await group.holder(chat)
    assert worker in group.workers
    await group.front.until(lambda: any("One" in answer for answer in group.api.answers(chat)))
    assert not any(TEXT in answer for answer in group.api.answers(chat))
    await group.front.until(
        lambda: any("One" in event.text for event in events if isinstance(event, TextDelta))
    )
    assert not any(isinstance(event, Done) for event in events)
    group.model.let_go()
    await group.idle()
    await group.front.until(lambda: any(isinstance(event, TurnStored) for event in events))
    following.cancel()
    assert group.api.answers(chat)[1:] == [f"Let me look first, please wait.\n\n{TEXT}"]
    assert group.front.methods(chat) == ["sendMessage", "editMessageText"]
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == f"Let me look first, please wait.\n\n{TEXT}"
    kinds = (ToolStart, ToolResulted, Done, TurnStored)
    order = [type(event) for event in events if isinstance(event, kinds)]
    assert order == [ToolStart, ToolResulted, Done, TurnStored]
    numbers = [event.seq for event in events if isinstance(event, MessageStored)]
    assert all(before < after for before, after in pairwise(numbers))
    assert len(numbers) == 6


async def test_stop_ends_the_stream_of_a_worker(group: WorkerGroup, chat: int) -> None:
    abandoned = group.model.abandoned
    group.model.script(ENDLESS)
    await group.api.user_says(chat, "go")
    await group.front.until(lambda: group.api.answers(chat))
    await group.api.user_says(chat, "/stop")
    await group.front.until(lambda: group.model.abandoned > abandoned)
    await group.idle()
    (answer,) = group.api.answers(chat)
    assert answer.startswith("One two")
    assert answer.endswith("⏹ Stopped.")
    assert await group.answers_to(chat, "next") == [answer, "echo: next"]
    assert await group.answers_to(chat, "/stop") == [answer, "echo: next", "Nothing is running."]


async def test_message_joins_the_turn_of_a_worker_and_a_command_waits(
    group: WorkerGroup, chat: int
) -> None:
    await group.answers_to(chat, "/queue steer")
    look = (Call("list_dir", {"path": "."}),)
    group.model.script(ReplyScript(tool_calls=look, waits_at=0), ReplyScript(text="Both."))
    await group.api.user_says(chat, "first")
    await group.front.until(lambda: group.model.waiting)
    await group.api.user_says(chat, "second")
    await group.front.until(lambda: not group.api.pending_updates)
    group.model.let_go()
    await group.idle()
    assert group.api.answers(chat)[1:] == ["Both."]
    assert [text.split("\n")[0] for role, text in last_request(group) if role == "user"] == [
        "first",
        "second",
    ]
    group.model.script(ReplyScript(text="Slowly.", waits_at=0))
    await group.api.user_says(chat, "third")
    await group.front.until(lambda: group.model.waiting)
    await group.api.user_says(chat, "/new")
    await group.api.user_says(chat, "fourth")
    await group.front.until(lambda: not group.api.pending_updates)
    group.model.let_go()
    await group.idle()
    *_, third, new, fourth = group.api.answers(chat)
    assert third == "Slowly."
    assert "New conversation" in new
    assert fourth == "echo: fourth"
    assert len(last_request(group)) == 1


async def test_command_changes_apply_to_the_next_turn_of_each_worker(
    group: WorkerGroup, chat: int
) -> None:
    def mind(body: Any) -> ReplyScript:
        return ReplyScript(text="They counted." if is_summary(body) else "Read.")

    group.model.mind = mind
    first, second = f"one {LONG}", f"two {LONG}"
    group.model.script(ReplyScript(text=first, waits_at=0), ReplyScript(text=second))
    await group.api.user_says(chat, f"count {LONG}")
    worker = await group.holder(chat)
    group.model.let_go()
    await group.idle()
    worker.signal(signal.SIGTERM)
    assert await worker.exit_code() == 0
    await group.answers_to(chat, f"go on {LONG}")
    assert [text for role, text in last_request(group) if role == "assistant"] == [first]
    # This worker knows the other worker's answers and the front's changes by commands.
    await group.start_workers(worker)
    await group.kill(next(item for item in group.workers if item is not worker))
    await group.answers_to(chat, "/model other")
    assert "were summarized" in (await group.answers_to(chat, "/compact"))[-1]
    assert (await group.answers_to(chat, "and now?"))[-1] == "Read."
    last = group.model.requests[-1].body
    assert last["model"] == "other"
    assert "They counted." in json.dumps(last)
    assert first not in json.dumps(last)
    await group.answers_to(chat, "/new")
    await group.answers_to(chat, "five")
    assert len(last_request(group)) == 1
    await group.start_workers(*(item for item in group.workers if not item.runs))


async def test_turns_are_distributed_over_workers_only(
    group: WorkerGroup,
) -> None:
    numbers = {group.number(worker) for worker in group.workers}
    holders: set[int | None] = set()
    chats = count(3001)
    # The front may not have noticed yet that a worker has returned.
    while not numbers <= holders:
        some = list(islice(chats, 8))
        assert some[-1] < 3200
        await asyncio.gather(*(group.api.user_says(item, f"hi {item}") for item in some))
        await group.idle()
        assert [group.api.answers(item) for item in some] == [[f"echo: hi {item}"] for item in some]
        for item in some:
            holders |= {
                row[0] for row in await group.rows("turn", "worker", lane=f"telegram:123456:{item}")
            }
    assert holders == numbers


async def test_goal_is_judged_by_the_owner_and_its_turns_run_in_workers(
    group: WorkerGroup, chat: int
) -> None:
    group.model.mind = stepping()
    await group.api.user_says(chat, "/goal take all steps")
    await group.front.until(lambda: "The goal is met" in "".join(group.api.answers(chat)))
    await group.idle()
    _, *answers = group.api.answers(chat)
    assert answers == [*(f"step {n}" for n in range(1, TURNS + 1)), "🎯 The goal is met: all steps"]
