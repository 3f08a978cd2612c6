import asyncio

from agent.events import TextDelta
from gateway.cli.console.chat.event_buffer import LIMIT, EventBuffer


async def test_buffered_events_are_returned_in_order() -> None:
    held = EventBuffer()
    assert not held
    for text in ("a", "b"):
        await held.keep(TextDelta(text))
    assert held
    assert list(held.take_all()) == [TextDelta("a"), TextDelta("b")]
    assert not held


async def test_full_buffer_blocks_the_producer() -> None:
    held, sent = EventBuffer(), [TextDelta(str(n)) for n in range(2 * LIMIT)]

    async def bring() -> None:
        for event in sent:
            await held.keep(event)

    bringing = asyncio.create_task(bring())
    seen: list[object] = []
    async with asyncio.timeout(30):
        while not bringing.done():
            await asyncio.sleep(0)
            brought = list(held.take_all())
            assert len(brought) <= LIMIT
            seen += brought
    assert seen + list(held.take_all()) == sent


async def test_blocked_producer_can_be_cancelled() -> None:
    held = EventBuffer()

    async def bring() -> None:
        while True:
            await held.keep(TextDelta("x"))

    bringing = asyncio.create_task(bring())
    await asyncio.sleep(0)
    bringing.cancel()
    assert await asyncio.wait({bringing}, timeout=10) == ({bringing}, set())
