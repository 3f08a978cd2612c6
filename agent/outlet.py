"""Where a turn's events go: a bounded queue that whoever watches drains."""

import asyncio
from collections.abc import AsyncGenerator

from agent.events import Event

SIZE = 256


class Outlet:
    """One writer's side and one reader's side of a turn's events."""

    def __init__(self) -> None:
        # None wakes a reader that waits for a writer that has ended.
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=SIZE)

    async def emit(self, event: Event) -> None:
        """Waits while the reader is behind."""
        await self._queue.put(event)

    def offer(self, event: Event) -> None:
        """For live output that may be dropped when the reader is behind: the result has it all."""
        if not self._queue.full():
            self._queue.put_nowait(event)

    async def drain(self, writer: asyncio.Task[object]) -> AsyncGenerator[Event]:
        """Everything emitted until the writing task ends, however it ends."""
        writer.add_done_callback(self._wake)
        try:
            while not (writer.done() and self._queue.empty()):
                event = await self._queue.get()
                if event is not None:
                    yield event
        finally:
            writer.remove_done_callback(self._wake)

    def _wake(self, writer: asyncio.Task[object]) -> None:
        # With anything in the queue the reader is not waiting.
        if self._queue.empty():
            self._queue.put_nowait(None)
