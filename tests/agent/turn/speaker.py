"""Channel between a test and a running turn."""

from collections.abc import AsyncIterator

from agent import events
from agent.providers.base import ModelRequest


class Speaker:
    """A provider that streams the given events."""

    name = "speaker"

    def __init__(self, *spoken: events.ModelEvent) -> None:
        self._events = list(spoken)
        self.closed_streams = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[events.ModelEvent]:
        try:
            for event in self._events:
                yield event
        finally:
            self.closed_streams += 1

    async def aclose(self) -> None: ...
