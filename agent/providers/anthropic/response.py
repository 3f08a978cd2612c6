"""Builder of replies from Anthropic's events.

Events: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.errors import Unavailable
from agent.events import (
    FILTERED,
    ModelEvent,
    Reply,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
)
from agent.i18n import t
from agent.providers.http.json_stream import JsonObject
from agent.providers.text_stream import DeltaBuffer
from agent.providers.tool_calls import parse_tool_call
from agent.providers.wire_text import count_of, encode_json, text_of
from agent.text.visible import replace_lone_surrogates
from agent.types import (
    Message,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
    Usage,
)

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": FILTERED,
}


@dataclass(slots=True)
class _Block:
    """Content block of the reply; `data` is its initial object."""

    kind: str
    data: JsonObject
    text_buffer: DeltaBuffer = field(default_factory=DeltaBuffer)
    pieces: list[str] = field(default_factory=list)
    signature: str = ""
    id: str = ""

    @property
    def name(self) -> str:
        return replace_lone_surrogates(text_of(self.data.get("name")))

    @property
    def thinks(self) -> bool:
        return self.kind in ("thinking", "redacted_thinking")

    @property
    def part(self) -> Part | None:
        match self.kind:
            case "text" if self.text_buffer.text:
                return Text(self.text_buffer.text)
            case "thinking":
                # Signatures in JSON are Kore's own, of the other formats.
                signature = None if self.signature.startswith("{") else self.signature or None
                if self.text_buffer.text or signature:
                    return Thinking(self.text_buffer.text, signature)
            case "redacted_thinking" if text_of(self.data.get("data")):
                return RedactedThinking(text_of(self.data.get("data")))
        return None

    def call(self, *, cut: bool) -> ToolCall:
        raw = "".join(self.pieces)
        input_data = self.data.get("input")
        if not raw and isinstance(input_data, dict) and input_data:
            raw = encode_json(input_data).decode()
        return parse_tool_call(self.id, self.name, raw, cut=cut)


class AnthropicResponseBuilder:
    """Converter of Anthropic's stream events to model events.

    Pings and unknown events are ignored. `number` returns the first number for ids that the server
    did not send.
    """

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self.finish_reason: str | None = None
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, int] = {}
        self._ended = False

    def add(self, payload: JsonObject) -> Iterator[ModelEvent]:
        match payload.get("type"):
            case "message_start":
                message = _object(payload.get("message"))
                self._count(message.get("usage"))
            case "content_block_start":
                yield from self._open(_index(payload), _object(payload.get("content_block")))
            case "content_block_delta":
                yield from self._grow(_index(payload), _object(payload.get("delta")))
            case "content_block_stop":
                yield from self._close(_index(payload))
            case "message_delta":
                self._count(payload.get("usage"))
                if reason := text_of(_object(payload.get("delta")).get("stop_reason")):
                    self.finish_reason = _REASONS.get(reason, reason)
            case "message_stop":
                self._ended = True
            case "message":
                yield from self._read_whole_reply(payload)

    def finish(self, *, done: bool) -> Iterator[ModelEvent]:
        """Yield the `Reply`. Raises `Unavailable` for a truncated stream."""
        if not (self._ended or self.finish_reason):
            raise Unavailable(t("the model's reply was cut off"))
        blocks = [self._blocks[n] for n in sorted(self._blocks)]
        cut = self.finish_reason == "length"
        calls = tuple(block.call(cut=cut) for block in blocks if block.kind == "tool_use")
        last = max((n for n, block in enumerate(blocks) if block.thinks), default=-1)
        parts = tuple(
            part
            for n, block in enumerate(blocks)
            if (
                part := ToolCallMarker(block.id)
                if n < last and block.kind == "tool_use"
                else block.part
            )
        )
        yield Reply(Message("assistant", parts, calls), self._tokens(), self.finish_reason)

    def _open(self, index: int, data: JsonObject) -> Iterator[ModelEvent]:
        block = self._blocks[index] = _Block(text_of(data.get("type")), data)
        block.signature = text_of(data.get("signature"))
        yield from self._say(block, text_of(data.get("text")) + text_of(data.get("thinking")))
        if block.kind == "tool_use":
            block.id = self._own_id(replace_lone_surrogates(text_of(data.get("id"))), block)
            yield ToolCallDelta(block.id, block.name, "")

    def _own_id(self, call_id: str, block: _Block) -> str:
        """Return the call's id, or a generated one if it is missing or already used."""
        used_ids = {item.id for item in self._blocks.values() if item is not block}
        if call_id and call_id not in used_ids:
            return call_id
        number = self._number()
        while f"call_{number}" in used_ids:
            number += 1
        return f"call_{number}"

    def _grow(self, index: int, delta: JsonObject) -> Iterator[ModelEvent]:
        block = self._blocks.get(index)
        if block is None:
            return
        match delta.get("type"):
            case "text_delta" | "thinking_delta":
                text = text_of(delta.get("text")) + text_of(delta.get("thinking"))
                yield from self._say(block, text)
            case "signature_delta":
                block.signature += text_of(delta.get("signature"))
            case "input_json_delta":
                piece = replace_lone_surrogates(text_of(delta.get("partial_json")))
                block.pieces.append(piece)
                yield ToolCallDelta(block.id, block.name, piece)

    def _say(self, block: _Block, text: str) -> Iterator[ModelEvent]:
        if not text or not (text := block.text_buffer.add(text)):
            return
        if block.kind == "thinking":
            yield ThinkingDelta(text, block.text_buffer.chars)
        elif block.kind == "text":
            yield TextDelta(text)

    def _close(self, index: int) -> Iterator[ModelEvent]:
        block = self._blocks.get(index)
        if block is not None and block.kind == "thinking" and block.text_buffer.text:
            yield ThinkingEnd(block.text_buffer.text)

    def _read_whole_reply(self, message: JsonObject) -> Iterator[ModelEvent]:
        """Read a reply that was not streamed, which some compatible servers send."""
        self._count(message.get("usage"))
        content = message.get("content")
        for index, data in enumerate(content if isinstance(content, list) else ()):
            yield from self._open(index, _object(data))
            yield from self._close(index)
        reason = text_of(message.get("stop_reason")) or "end_turn"
        self.finish_reason = _REASONS.get(reason, reason)

    def _count(self, usage: Any) -> None:
        """Update the token counts; later counts replace earlier ones unless they are empty."""
        for name, value in _object(usage).items():
            if isinstance(value, int | float) and (value or name not in self._usage):
                self._usage[name] = count_of(value)

    def _tokens(self) -> Usage | None:
        """Return the usage; input includes the tokens read from and written to the cache."""
        if not self._usage:
            return None
        get = self._usage.get
        cached = get("cache_read_input_tokens", 0)
        uncached = get("input_tokens", 0) + get("cache_creation_input_tokens", 0)
        return Usage(uncached + cached, get("output_tokens", 0), cached)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _index(payload: JsonObject) -> int:
    index = payload.get("index")
    return index if isinstance(index, int) else 0
