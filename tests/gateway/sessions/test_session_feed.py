"""Session feed: each stored message arrives once, in order, despite interruptions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.events import IterationStart, TextDelta, ToolStart
from agent.types import assistant
from gateway.core.records import HistoryReset, MessageStored, SessionEvent, SessionIdle, TurnStored
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, console_message, running, tool_call


def texts(events: list[SessionEvent]) -> list[tuple[int, str]]:
    return [(event.seq, event.message.text) for event in events if isinstance(event, MessageStored)]


async def until_turn_end(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    results = []
    async with asyncio.timeout(30):
        async for event in events:
            results.append(event)
            # This event reports a turn that had finished before it was followed.
            is_late = isinstance(event, SessionIdle) and texts(results)
            if isinstance(event, TurnStored) or is_late:
                return results
    raise AssertionError("the watch ended")


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with running(tmp_path, Gated(is_open=lambda text: text != "long")) as parts:
        yield parts


async def test_follower_gets_streamed_and_stored_events(parts: Parts) -> None:
    session = await parts.service.send_message(None, "hi")
    async with parts.service.follow_session(session) as events:
        result = await until_turn_end(events)
    assert texts(result)[-1] == (2, "re: hi")
    assert [seq for seq, _ in texts(result)] == [1, 2]


async def test_returning_follower_gets_only_stored_events(parts: Parts) -> None:
    session = await parts.service.send_message(None, "one")
    async with parts.service.follow_session(session) as events:
        await until_turn_end(events)
    await parts.service.send_message(session, "two")
    async with parts.service.follow_session(session, after=2) as events:
        result = await until_turn_end(events)
    assert [seq for seq, _ in texts(result)] == [3, 4]
    assert texts(result)[-1] == (4, "re: two")
    async with parts.service.follow_session(session, after=4, kinds=("done",)) as events:
        await parts.service.send_message(session, "three")
        kinds = {event.type for event in await _some(events, 3)}
    assert kinds == {"message", "done"}


async def _some(events: AsyncIterator[SessionEvent], count: int) -> list[SessionEvent]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_message_sent_twice_is_accepted_once(parts: Parts) -> None:
    session = await parts.service.create_session()
    for _ in range(2):
        await parts.service.send_message(session, "hi", event_id="e1")
    async with parts.service.follow_session(session) as events:
        await until_turn_end(events)
    assert len(await parts.service.load_messages(session)) == 2


async def test_turns_of_another_chat_in_the_session_are_followed(parts: Parts) -> None:
    session = await parts.service.create_session()
    elsewhere = console_message("from a terminal", "main")
    await parts.service.bind_session(elsewhere.session_key, session)
    async with parts.service.follow_session(session) as events:
        await parts.service.submit(elsewhere)
        result = await until_turn_end(events)
    assert any(isinstance(event, IterationStart) for event in result)
    assert texts(result)[-1] == (2, "re: from a terminal")


async def test_running_turn_can_be_joined_and_stopped(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="sleep 60")
    async with running(tmp_path, [assistant("", (call,)), "done"]) as parts:
        session = await parts.service.create_session()
        assert not await parts.service.stop_session(session)
        async with parts.service.follow_session(session) as first:
            await parts.service.send_message(session, "go", mode="auto")
            while not isinstance(await anext(first), ToolStart):
                pass
            async with parts.service.follow_session(session) as late:
                events = await _some(late, 3)
                assert [type(item) for item in events] == [MessageStored, MessageStored, ToolStart]
            assert await parts.service.stop_session(session)
            await until_turn_end(first)


async def test_rewound_messages_are_reported(parts: Parts) -> None:
    session = await parts.service.send_message(None, "hi")
    async with parts.service.follow_session(session) as events:
        await until_turn_end(events)
    async with parts.service.follow_session(session, after=7) as events:
        result = await _some(events, 3)
    assert isinstance(result[0], HistoryReset)
    assert [seq for seq, _ in texts(result)] == [1, 2]


async def test_streamed_text_of_a_stored_message_is_not_repeated(parts: Parts) -> None:
    """A slow follower gets the text of a reply once, as the message."""
    session = await parts.service.create_session()
    async with parts.service.follow_session(session) as slow:
        await parts.service.send_message(session, "hi")
        async with parts.service.follow_session(session) as quick:
            await until_turn_end(quick)
        events = await until_turn_end(slow)
    shown = ""
    for event in events:
        if isinstance(event, TextDelta):
            shown += event.text
        if isinstance(event, MessageStored):
            shown = ""
    assert shown == ""
