import asyncio

from agent.events import Error, State, TextDelta, ThinkingDelta, ToolOutput
from gateway.service import WatchEvent
from gateway.watchers import LIMIT, OUTPUT_LIMIT, Watcher, Watchers


async def read(watcher: Watcher) -> list[WatchEvent]:
    """Everything, once it was closed."""
    watcher.close()
    async with asyncio.timeout(10):
        return [event async for event in watcher]


def mark(n: int) -> Error:
    return Error(str(n), "", None)


async def test_text_for_a_slow_watcher_is_joined_and_none_is_lost() -> None:
    watcher = Watcher()
    for text in ("a", "b", "c"):
        watcher.put(TextDelta(text))
    watcher.put(ThinkingDelta("x", 1))
    watcher.put(ThinkingDelta("y", 2))
    watcher.put(TextDelta("d"))
    assert await read(watcher) == [TextDelta("abc"), ThinkingDelta("xy", 2), TextDelta("d")]


async def test_of_states_the_latest_stays() -> None:
    watcher = Watcher()
    watcher.put(State("planning"))
    watcher.put(State("executing"))
    assert await read(watcher) == [State("executing")]


async def test_live_output_is_dropped_when_there_is_too_much() -> None:
    watcher = Watcher()
    for n in range(OUTPUT_LIMIT + 50):
        watcher.put(ToolOutput("1", str(n), "stdout"))
    watcher.put(mark(1))
    seen = await read(watcher)
    assert len(seen) == OUTPUT_LIMIT + 1
    assert seen[-1] == mark(1)


async def test_a_watcher_too_far_behind_is_let_go_and_holds_no_more() -> None:
    watchers = Watchers()
    with watchers.watch("x") as watcher:
        for n in range(LIMIT * 2):
            watchers.publish("x", mark(n))
        assert not watchers.is_watched("x")
        assert len(await read(watcher)) == LIMIT + 1
    assert not watchers.is_watched("x")


async def test_every_watcher_of_a_lane_sees_everything_and_no_other_lane() -> None:
    watchers = Watchers()
    with watchers.watch("x") as one, watchers.watch("x") as two, watchers.watch("y") as other:
        watchers.publish("x", mark(1))
        watchers.publish("z", mark(2))
        watchers.close()
        assert await read(one) == await read(two) == [mark(1)]
        assert await read(other) == []


async def test_a_reader_that_waits_is_woken() -> None:
    watchers = Watchers()
    with watchers.watch("x") as watcher:
        reading = asyncio.create_task(anext(aiter(watcher)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        watchers.publish("x", mark(1))
        async with asyncio.timeout(10):
            assert await reading == mark(1)
