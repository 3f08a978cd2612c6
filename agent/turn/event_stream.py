"""Where a turn's events go: a bounded queue that its reader drains."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from agent.events import Event, ToolOutput, ToolResulted

SIZE = 256


class DroppedEvents:
    """Live output that a reader was too slow for, by call, until it is told how much that was."""

    def __init__(self) -> None:
        self._pieces: dict[str, ToolOutput] = {}

    def add(self, piece: ToolOutput) -> None:
        """It is not shown."""
        before = self._pieces.get(piece.id)
        lost = piece.skipped_bytes + len(piece.text.encode("utf-8", "replace"))
        lost += before.skipped_bytes if before else 0
        self._pieces[piece.id] = replace(piece, text="", skipped_bytes=lost)

    def before(self, piece: ToolOutput) -> ToolOutput:
        """It is shown, and tells what was left out in front of it."""
        lost = self._pieces.pop(piece.id, None)
        if lost is None:
            return piece
        return replace(piece, skipped_bytes=piece.skipped_bytes + lost.skipped_bytes)

    def at_end(self, result: ToolResulted) -> ToolOutput | None:
        """What is still to be told before a call's result."""
        return self._pieces.pop(result.id, None)


class EventStream:
    """One writer's side and one reader's side of a turn's events."""

    def __init__(self) -> None:
        # None wakes a reader that waits for a writer that has ended.
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=SIZE)
        self._left_out = DroppedEvents()

    async def emit(self, event: Event) -> None:
        """Waits while the reader is behind."""
        if isinstance(event, ToolResulted) and (lost := self._left_out.at_end(event)) is not None:
            await self._queue.put(lost)
        await self._queue.put(event)

    def offer(self, piece: ToolOutput) -> None:
        """Live output is left out when the reader is behind, which is told: the result has it."""
        if self._queue.full():
            self._left_out.add(piece)
        else:
            self._queue.put_nowait(self._left_out.before(piece))

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
