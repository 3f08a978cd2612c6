"""Buffer for events while the person types or chooses and the screen is in use."""

import asyncio
from collections import deque
from collections.abc import Iterator

from gateway.core.records import WatchEvent

# Number of buffered events at which producers have to wait.
MAX_EVENTS = 1024


class EventBuffer:
    """Bounded buffer of events; `EventHub` describes the behaviour when it is full."""

    def __init__(self) -> None:
        self._events: deque[WatchEvent] = deque()
        self._room = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._events)

    async def keep(self, event: WatchEvent) -> None:
        """Add an event; return once there is room for another."""
        self._events.append(event)
        if len(self._events) >= MAX_EVENTS:
            self._room.clear()
            await self._room.wait()

    def take_all(self) -> Iterator[WatchEvent]:
        """Remove and yield all events, oldest first."""
        while self._events:
            yield self._events.popleft()
        self._room.set()
