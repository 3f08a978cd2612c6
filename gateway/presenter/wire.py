"""Blocks of a session's events in JSON, for remote screens."""

from collections.abc import Iterator
from typing import Any

from agent import events
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionChanged,
    SessionEvent,
    SessionIdle,
    SessionNews,
    TurnStored,
)
from gateway.presenter.blocks import Block, call_block, note_block, step_block, verdict_block
from gateway.presenter.stored import StoredCalls

_WITHOUT_BLOCKS = Delivered | HistoryReset | SessionChanged | SessionIdle | SessionNews | TurnStored


class WireBlocks:
    """Blocks of the events of one stream, in the current language.

    They omit fields that the event itself has: text of answers, thoughts and results, arguments.
    """

    def __init__(self) -> None:
        self._stored = StoredCalls()
        self._running: dict[str, events.ToolStart] = {}

    def take(self, event: SessionEvent | SessionNews) -> list[dict[str, Any]]:
        return [_block_to_json(block) for block in self._blocks(event)]

    def _blocks(self, event: SessionEvent | SessionNews) -> Iterator[Block]:
        block: Block | None = None
        match event:
            case _ if isinstance(event, _WITHOUT_BLOCKS):
                return
            case MessageStored(message=message):
                if message.role == "assistant":
                    yield from self._stored.start(message)
                elif message.role == "tool":
                    block = self._stored.end(message)
            case events.ToolStart():
                self._running[event.id] = event
                block = call_block(event)
            case events.ToolResulted():
                started = self._running.pop(event.id, None)
                block = call_block(started or events.ToolStart(event.id, event.name, {}), event)
            case events.ApprovalAnswered():
                block = verdict_block(event)
            case events.FromAgent():
                block = step_block(event)
            case _:
                if isinstance(event, events.IterationStart | events.Done):
                    # Calls of a stopped turn have no result.
                    self._running.clear()
                block = note_block(event)
        if block is not None:
            yield block


def _block_to_json(block: Block) -> dict[str, Any]:
    if block.kind != "call":
        return {
            "kind": block.kind,
            "style": block.style,
            "mark": block.mark,
            "text": block.text,
        }
    return {
        "kind": block.kind,
        "id": block.id,
        "title": [[part.text, part.argument] for part in block.title],
        "detail": block.detail,
        "elapsed": block.elapsed,
        "diff": block.diff,
        "files": list(block.files),
    }
