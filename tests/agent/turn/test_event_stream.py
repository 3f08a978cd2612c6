"""The event queue between a turn and its consumer."""

import asyncio
from contextlib import aclosing

from agent.events import Event, TextDelta, ToolOutput, ToolResulted
from agent.turn.event_stream import MAX_EVENTS, EventStream
from tests.agent.props import expect_no_task_left


async def drain(outlet: EventStream, writer: asyncio.Task[None]) -> list[Event]:
    async with aclosing(outlet.drain(writer)) as stream:
        return [event async for event in stream]


def words(count: int) -> list[TextDelta]:
    return [TextDelta(str(n)) for n in range(count)]


async def test_events_arrive_in_order_beyond_the_buffer_size() -> None:
    outlet = EventStream()

    async def write() -> None:
        for word in words(3 * MAX_EVENTS):
            await outlet.emit(word)

    async with expect_no_task_left():
        assert await drain(outlet, asyncio.create_task(write())) == words(3 * MAX_EVENTS)


async def test_full_stream_blocks_its_writer() -> None:
    outlet = EventStream()
    written = 0

    async def write() -> None:
        nonlocal written
        for word in words(MAX_EVENTS + 10):
            await outlet.emit(word)
            written += 1

    writer = asyncio.create_task(write())
    for _ in range(5):
        await asyncio.sleep(0)
    assert written == MAX_EVENTS
    assert len(await drain(outlet, writer)) == MAX_EVENTS + 10


async def test_waiting_reader_is_woken_by_the_end() -> None:
    outlet, go = EventStream(), asyncio.Event()

    async def write() -> None:
        await outlet.emit(TextDelta("only"))
        await go.wait()

    writer = asyncio.create_task(write())
    async with aclosing(outlet.drain(writer)) as stream:
        assert await anext(stream) == TextDelta("only")
        rest = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        assert not rest.done()
        go.set()
        assert await rest is None


async def test_events_emitted_before_the_writer_failed_are_read() -> None:
    outlet = EventStream()

    async def write() -> None:
        for word in words(MAX_EVENTS):
            await outlet.emit(word)
        raise ValueError

    writer = asyncio.create_task(write())
    await asyncio.wait({writer})
    assert await drain(outlet, writer) == words(MAX_EVENTS)
    assert isinstance(writer.exception(), ValueError)


async def test_cancelled_writer_ends_the_stream() -> None:
    outlet = EventStream()
    writer = asyncio.create_task(asyncio.Event().wait())
    reader = asyncio.create_task(drain(outlet, writer))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    writer.cancel()
    assert await reader == []


def output_event(text: str, skipped_bytes: int = 0) -> ToolOutput:
    return ToolOutput("c1", text, "stdout", skipped_bytes)


async def test_live_output_is_dropped_with_a_note_for_a_slow_reader() -> None:
    outlet, result = EventStream(), ToolResulted("c1", "exec", "all of it", False, 0.1)

    async def write() -> None:
        for _ in range(MAX_EVENTS):
            outlet.offer(output_event("x"))
        outlet.offer(output_event("ä"))
        outlet.offer(output_event("b"))
        await outlet.emit(result)

    seen = await drain(outlet, asyncio.create_task(write()))
    assert seen == [output_event("x")] * MAX_EVENTS + [output_event("", 3), result]


async def test_live_output_after_a_gap_notes_the_missing_part() -> None:
    outlet, result = EventStream(), asyncio.Event()

    async def write() -> None:
        for _ in range(MAX_EVENTS + 2):
            outlet.offer(output_event("x"))
        result.set()
        await go.wait()
        outlet.offer(output_event("y"))

    go = asyncio.Event()
    async with aclosing(outlet.drain(asyncio.create_task(write()))) as stream:
        await result.wait()
        seen = [await anext(stream) for _ in range(MAX_EVENTS)]
        go.set()
        assert [*seen, await anext(stream)] == [output_event("x")] * MAX_EVENTS + [
            output_event("y", 2)
        ]
