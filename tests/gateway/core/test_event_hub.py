import asyncio
from contextlib import suppress

import pytest

from agent.errors import KoreError
from agent.events import (
    Error,
    Notice,
    State,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolOutput,
    ToolResulted,
    ToolStart,
    UsageReport,
)
from agent.types import Usage
from gateway.core.errors import ConnectionLost
from gateway.core.event_hub import (
    FELL_BEHIND,
    JOINED_CHARS,
    MAX_CHARS,
    MAX_EVENTS,
    OUTPUT_LIMIT,
    STATUS_LIMIT,
    EventHub,
    Subscription,
)
from gateway.core.records import SessionNews, WatchEvent


async def read(watcher: Subscription) -> list[WatchEvent]:
    """Close the subscription and return all its events."""
    watcher.close()
    async with asyncio.timeout(30):
        return [event async for event in watcher]


async def read_to_end(watcher: Subscription) -> list[WatchEvent]:
    """Return the unread events, up to the error that the subscription has fallen behind."""
    seen = []

    async def to_the_end() -> None:
        async for event in watcher:
            seen.append(event)

    async with asyncio.timeout(30):
        with pytest.raises(ConnectionLost, match=FELL_BEHIND):
            await to_the_end()
    return seen


def mark(n: int) -> Error:
    return Error(str(n), "", None)


async def test_text_for_a_slow_watcher_is_joined_without_loss() -> None:
    watcher = Subscription()
    for text in ("a", "b", "c"):
        watcher.put(TextDelta(text))
    watcher.put(ThinkingDelta("x", 1))
    watcher.put(ThinkingDelta("y", 2))
    watcher.put(TextDelta("d"))
    assert await read(watcher) == [TextDelta("abc"), ThinkingDelta("xy", 2), TextDelta("d")]


async def test_only_the_latest_state_is_retained() -> None:
    watcher = Subscription()
    watcher.put(State("planning"))
    watcher.put(State("executing"))
    assert await read(watcher) == [State("executing")]


async def test_long_text_is_joined_in_linear_time() -> None:
    watcher, text = Subscription(), "x" * 1000
    for _ in range(100):
        watcher.put(TextDelta(text))
    seen = [event.text for event in await read(watcher) if isinstance(event, TextDelta)]
    assert "".join(seen) == text * 100
    assert max(map(len, seen)) < JOINED_CHARS + 1000
    assert len(seen) < 10


async def test_partial_calls_are_joined_per_call() -> None:
    watcher = Subscription()
    for id_, piece in (("a", "{"), ("a", "}"), ("b", "{}")):
        watcher.put(ToolCallDelta(id_, "write_file", piece))
    assert await read(watcher) == [
        ToolCallDelta("a", "write_file", "{}"),
        ToolCallDelta("b", "write_file", "{}"),
    ]


async def test_only_the_last_statuses_between_other_events_are_retained() -> None:
    watcher = Subscription()
    for n in range(STATUS_LIMIT + 5):
        watcher.put(UsageReport(Usage(n, 0, 0)))
        watcher.put(mark(n))
    seen = await read(watcher)
    counts = [event.usage.input for event in seen if isinstance(event, UsageReport)]
    assert counts == list(range(5, STATUS_LIMIT + 5))
    assert len([event for event in seen if isinstance(event, Error)]) == STATUS_LIMIT + 5


async def test_excess_live_output_is_dropped_with_a_note() -> None:
    watcher, result = Subscription(), ToolResulted("1", "exec", "all", False, 0.1)
    for _ in range(OUTPUT_LIMIT + 50):
        watcher.put(ToolOutput("1", "ab", "stdout"))
    watcher.put(ToolOutput("1", "ab", "stdout", skipped_bytes=7))
    watcher.put(result)
    seen = await read(watcher)
    assert len(seen) == OUTPUT_LIMIT + 2
    assert seen[-2:] == [ToolOutput("1", "", "stdout", skipped_bytes=109), result]


async def test_watcher_exceeding_its_memory_is_dropped_with_an_error() -> None:
    watcher, large = Subscription(), "x" * 1_000_000
    for n in range(2 * MAX_CHARS // len(large)):
        watcher.put(ToolResulted(str(n), "exec", large, False, 0.1))
    assert not watcher.is_open
    seen = await read_to_end(watcher)
    assert sum(len(e.content) for e in seen if isinstance(e, ToolResulted)) <= MAX_CHARS + 1e6


async def test_watcher_that_keeps_up_is_never_dropped() -> None:
    watcher, large = Subscription(), "x" * 1_000_000
    reader = aiter(watcher)
    for n in range(2 * MAX_CHARS // len(large)):
        watcher.put(ToolResulted(str(n), "exec", large, False, 0.1))
        await anext(reader)
    assert watcher.is_open


async def test_watcher_too_far_behind_is_dropped_and_frees_its_buffer() -> None:
    watchers = EventHub()
    with watchers.watch("x") as watcher:
        for n in range(MAX_EVENTS * 2):
            watchers.publish("x", mark(n))
        assert not watchers.is_watched("x")
        assert len(await read_to_end(watcher)) == MAX_EVENTS + 1
    assert not watchers.is_watched("x")


async def test_watchers_see_every_event_of_their_lane_only() -> None:
    watchers = EventHub()
    with watchers.watch("x") as stream, watchers.watch("x") as two, watchers.watch("y") as other:
        watchers.publish("x", mark(1))
        watchers.publish("z", mark(2))
        watchers.close()
        assert await read(stream) == await read(two) == [mark(1)]
        assert await read(other) == []


async def test_waiting_reader_is_woken() -> None:
    watchers = EventHub()
    with watchers.watch("x") as watcher:
        reading = asyncio.create_task(anext(aiter(watcher)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        watchers.publish("x", mark(1))
        async with asyncio.timeout(30):
            assert await reading == mark(1)


async def test_late_watcher_gets_the_running_calls() -> None:
    watchers = EventHub()
    over, running = (ToolStart(id, "exec", {"command": id}) for id in ("over", "running"))
    with watchers.turn("x", "s"):
        watchers.publish("x", over)
        watchers.publish("x", running)
        watchers.publish("x", ToolResulted("over", "exec", "", False, 0.1))
        with watchers.watch("x") as late, watchers.watch("y") as other:
            assert await read(late) == [running]
            assert await read(other) == []
    with watchers.watch("x") as later:
        assert await read(later) == []


async def test_calls_of_a_cancelled_turn_have_ended() -> None:
    watchers = EventHub()
    with suppress(asyncio.CancelledError), watchers.turn("x", "s"):
        watchers.publish("x", ToolStart("1", "exec", {}))
        raise asyncio.CancelledError
    with watchers.watch("x") as late:
        assert await read(late) == []


async def test_watcher_of_a_failed_lane_gets_buffered_events_then_the_error() -> None:
    watchers = EventHub()
    with watchers.watch("a") as watcher, watchers.watch("b") as other:
        watchers.publish("a", TextDelta("x"))
        watchers.fail("a", KoreError("broken"))
        events = aiter(watcher)
        assert await anext(events) == TextDelta("x")
        with pytest.raises(KoreError, match="broken"):
            await anext(events)
        assert other.is_open


async def test_overview_events_name_their_session() -> None:
    hub = EventHub()
    with hub.watch_sessions(lambda session, _: session != "hidden") as overview:
        for lane, session in (("x", "one"), ("y", "two"), ("z", "hidden")):
            with hub.turn(lane, session):
                hub.publish(lane, TextDelta("a"))
                hub.publish(lane, TextDelta("b"))
            hub.end_turn(session)
        # An event outside of a turn belongs to no session.
        hub.publish("x", TextDelta("later"))
        hub.close()
        events = [event async for event in overview]
    expected = [(session, event) for session in ("one", "two") for event in ("ab", "turn_end")]
    assert [
        (item.session, getattr(item.event, "text", item.event.type))
        for item in events
        if isinstance(item, SessionNews)
    ] == expected


async def test_overview_ends_with_its_reason() -> None:
    hub = EventHub()
    with hub.watch_sessions(lambda *_: True) as overview:
        async with asyncio.TaskGroup() as group:
            failing = group.create_task(hub.fail_all(ConnectionLost("gone")))
            with pytest.raises(ConnectionLost, match="gone"):
                _ = [event async for event in overview]
            failing.cancel()


async def test_question_of_a_suspended_turn_reaches_the_followers_of_its_session() -> None:
    hub = EventHub()
    question = Notice("info", "question")
    with (
        hub.watch("x") as screen,
        hub.watch("other", "one") as follower,
        hub.watch_sessions(lambda *_: True) as overview,
    ):
        hub.publish_suspended({"x"}, "one", question)
        with hub.turn("x", "one"):
            hub.publish_suspended({"x"}, "one", question)
        assert await read(screen) == [question] * 2
        assert await read(follower) == [question] * 2
        overview.close()
        events = [event async for event in overview]
    assert events == [SessionNews("one", question)] * 2
