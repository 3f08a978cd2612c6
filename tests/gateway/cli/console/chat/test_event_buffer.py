import asyncio

from agent.events import TextDelta
from gateway.cli.console.chat.event_buffer import MAX_EVENTS, EventBuffer


async def test_buffered_events_are_returned_in_order() -> None:
    buffer = EventBuffer()
    assert not buffer
    for text in ("a", "b"):
        await buffer.keep(TextDelta(text))
    assert buffer
    assert list(buffer.take_all()) == [TextDelta("a"), TextDelta("b")]
    assert not buffer


async def test_full_buffer_blocks_the_producer() -> None:
    result, sent = EventBuffer(), [TextDelta(str(n)) for n in range(2 * MAX_EVENTS)]

    async def bring() -> None:
        for event in sent:
            await result.keep(event)

    bringing = asyncio.create_task(bring())
    seen: list[object] = []
    async with asyncio.timeout(30):
        while not bringing.done():
            await asyncio.sleep(0)
            brought = list(result.take_all())
            assert len(brought) <= MAX_EVENTS
            seen += brought
    assert seen + list(result.take_all()) == sent


async def test_blocked_producer_can_be_cancelled() -> None:
    buffer = EventBuffer()

    async def bring() -> None:
        while True:
            await buffer.keep(TextDelta("x"))

    bringing = asyncio.create_task(bring())
    await asyncio.sleep(0)
    bringing.cancel()
    assert await asyncio.wait({bringing}, timeout=10) == ({bringing}, set())
