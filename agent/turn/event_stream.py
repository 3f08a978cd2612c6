"""Bounded queue for the events of a turn."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from agent.events import Event, ToolOutput, ToolResulted

MAX_EVENTS = 256


class DroppedEvents:
    """Sizes of dropped live output by call, until they are reported to the reader."""

    def __init__(self) -> None:
        self._pieces: dict[str, ToolOutput] = {}

    def add(self, piece: ToolOutput) -> None:
        """Add the piece to the dropped output of its call."""
        before = self._pieces.get(piece.id)
        lost = piece.skipped_bytes + len(piece.text.encode("utf-8", "replace"))
        lost += before.skipped_bytes if before else 0
        self._pieces[piece.id] = replace(piece, text="", skipped_bytes=lost)

    def before(self, piece: ToolOutput) -> ToolOutput:
        """Return the piece with the size of the output dropped before it."""
        lost = self._pieces.pop(piece.id, None)
        if lost is None:
            return piece
        return replace(piece, skipped_bytes=piece.skipped_bytes + lost.skipped_bytes)

    def at_end(self, result: ToolResulted) -> ToolOutput | None:
        """Return the unreported dropped output of a call before its result, or None."""
        return self._pieces.pop(result.id, None)


class EventStream:
    """Event queue with one writer and one reader."""

    def __init__(self) -> None:
        # None wakes a reader that is waiting for a finished writer.
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=MAX_EVENTS)
        self._left_out = DroppedEvents()

    async def emit(self, event: Event) -> None:
        """Add an event; wait while the queue is full."""
        if isinstance(event, ToolResulted) and (lost := self._left_out.at_end(event)) is not None:
            await self._queue.put(lost)
        await self._queue.put(event)

    def offer(self, piece: ToolOutput) -> None:
        """Add live output, or drop it while the queue is full.

        The size of dropped output is reported, and the result of the call contains the text.
        """
        if self._queue.full():
            self._left_out.add(piece)
        else:
            self._queue.put_nowait(self._left_out.before(piece))

    async def drain(self, writer: asyncio.Task[object]) -> AsyncGenerator[Event]:
        """Yield all events until the writing task ends, for any reason."""
        writer.add_done_callback(self._wake)
        try:
            while not (writer.done() and self._queue.empty()):
                event = await self._queue.get()
                if event is not None:
                    yield event
        finally:
            writer.remove_done_callback(self._wake)

    def _wake(self, writer: asyncio.Task[object]) -> None:
        # While the queue contains an event, the reader is not waiting.
        if self._queue.empty():
            self._queue.put_nowait(None)
