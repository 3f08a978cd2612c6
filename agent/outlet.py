"""Where a turn's events go: a bounded queue that whoever watches drains."""

import asyncio
from collections.abc import AsyncIterator

from agent.events import Done, Error, Event

SIZE = 256


class Outlet:
    """One writer's side and one reader's side of a turn's events."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(maxsize=SIZE)

    async def emit(self, event: Event) -> None:
        """Waits while the reader is behind."""
        await self._queue.put(event)

    def offer(self, event: Event) -> None:
        """For live output that may be dropped when the reader is behind: the result has it all."""
        if not self._queue.full():
            self._queue.put_nowait(event)

    async def drain(self, writer: asyncio.Task[object]) -> AsyncIterator[Event]:
        """Everything emitted until `Done`, `Error`, or the end of the writing task."""
        while True:
            getter = asyncio.ensure_future(self._queue.get())
            try:
                await asyncio.wait({getter, writer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not getter.done():
                    getter.cancel()
            if getter.cancelled() or not getter.done():
                if self._queue.empty():
                    return
                continue
            event = getter.result()
            yield event
            if isinstance(event, Done | Error):
                return
