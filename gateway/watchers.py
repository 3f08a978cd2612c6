"""Who looks on: events of a lane, fanned out to every screen that watches it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from agent.events import ApprovalAsked, State, TextDelta, ThinkingDelta, ToolOutput
from gateway.service import WatchEvent

# A watcher this far behind is let go: it reads the session anew.
LIMIT = 4096
OUTPUT_LIMIT = 100


class Watcher:
    """One screen's events. Deltas that it has not read yet are joined, so that none is lost; live
    tool output may be dropped (the result has it all), and of states the latest stays. No question
    is put twice."""

    def __init__(self) -> None:
        self._events: deque[WatchEvent] = deque()
        self._outputs = 0
        self._asked: set[str] = set()
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def is_open(self) -> bool:
        """False once it was let go: what comes from then on does not reach it."""
        return not self._closed

    def put(self, event: WatchEvent) -> None:
        if self._closed:
            return
        last = self._events[-1] if self._events else None
        match last, event:
            case TextDelta(), TextDelta():
                self._events[-1] = TextDelta(last.text + event.text)
            case ThinkingDelta(), ThinkingDelta():
                self._events[-1] = replace(event, text=last.text + event.text)
            case State(), State():
                self._events[-1] = event
            case _, ApprovalAsked(nonce) if nonce in self._asked:
                return
            case _, ToolOutput() if self._outputs >= OUTPUT_LIMIT:
                return
            case _:
                self._outputs += isinstance(event, ToolOutput)
                if isinstance(event, ApprovalAsked):
                    self._asked.add(event.nonce)
                self._events.append(event)
        if len(self._events) > LIMIT:
            self._closed = True
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._events:
                event = self._events.popleft()
                self._outputs -= isinstance(event, ToolOutput)
                yield event
            if self._closed:
                return


class Watchers:
    """All watchers, by lane."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[Watcher]] = {}

    @contextmanager
    def watch(self, lane: str) -> Iterator[Watcher]:
        watcher = Watcher()
        self._lanes.setdefault(lane, []).append(watcher)
        try:
            yield watcher
        finally:
            watchers = self._lanes[lane]
            watchers.remove(watcher)
            if not watchers:
                del self._lanes[lane]

    def publish(self, lane: str, event: WatchEvent) -> None:
        for watcher in self._lanes.get(lane, ()):
            watcher.put(event)

    def is_watched(self, lane: str) -> bool:
        return any(watcher.is_open for watcher in self._lanes.get(lane, ()))

    def close(self) -> None:
        """End every watch: the process goes down."""
        for watchers in self._lanes.values():
            for watcher in watchers:
                watcher.close()
