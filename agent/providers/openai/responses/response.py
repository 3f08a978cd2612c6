"""Builder of replies from the events of the Responses API.

Events: https://platform.openai.com/docs/api-reference/responses-streaming
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import Unavailable
from agent.events import FILTERED, ModelEvent, Reply, ToolCallDelta
from agent.i18n import t
from agent.providers.http.json_stream import JsonObject
from agent.providers.openai.responses.request import phase_signature, reasoning_signature
from agent.providers.text_stream import TextStream
from agent.providers.tool_calls import parse_tool_call
from agent.providers.wire_text import count_of, text_of
from agent.text.visible import replace_lone_surrogates
from agent.types import Message, Part, Text, Thinking, ToolCall, ToolCallMarker, Usage

# Calls of functions, and of tools that take free text.
_CALLS = frozenset({"function_call", "custom_tool_call"})
_ENDS = frozenset({"response.completed", "response.incomplete"})
_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS = frozenset(
    {
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        # Spelling of some compatible servers.
        "response.reasoning.delta",
        "response.reasoning_summary.delta",
    }
)


_ARGUMENT, _ARGUMENT_END = '{"input": "', '"}'


@dataclass(slots=True)
class _Item:
    """An output item; `data` is the server's newest description of the whole item."""

    kind: str
    data: Mapping[str, Any]
    stream: TextStream = field(default_factory=TextStream)
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""

    @property
    def name(self) -> str:
        return replace_lone_surrogates(text_of(self.data.get("name")))

    @property
    def is_done(self) -> bool:
        return self.data.get("status") in ("completed", "incomplete")


class ResponsesResponseBuilder:
    """Converter of Responses API events to model events; unknown types are ignored.

    `number` returns the first number for ids that the server did not send.
    """

    def __init__(self, number: Callable[[], int]) -> None:
        self.finish_reason: str | None = None
        self._number = number
        self._items: dict[int, _Item] = {}
        self._usage: Usage | None = None
        self._has_refused = False

    def add(self, payload: JsonObject) -> Iterator[ModelEvent]:
        kind = text_of(payload.get("type"))
        index = _index(payload)
        if kind in _TEXT:
            self._has_refused = self._has_refused or kind.startswith("response.refusal")
            yield from self._item(index, "message").stream.add_text(text_of(payload.get("delta")))
        elif kind in _THOUGHTS:
            yield from self._item(index, "reasoning").stream.add_thinking(
                text_of(payload.get("delta"))
            )
        elif kind == "response.reasoning_summary_part.added" and payload.get("summary_index"):
            yield from self._item(index, "reasoning").stream.add_thinking("\n\n")
        elif kind == "response.function_call_arguments.delta":
            yield from self._grow(self._item(index, "function_call"), payload.get("delta"))
        elif kind == "response.custom_tool_call_input.delta":
            item = self._item(index, "custom_tool_call")
            yield from self._grow(item, _as_argument(item, text_of(payload.get("delta"))))
        elif kind == "response.output_item.added":
            yield from self._open(index, _object(payload.get("item")))
        elif kind == "response.output_item.done":
            yield from self._close(index, _object(payload.get("item")))
        elif kind in _ENDS:
            yield from self._end(_object(payload.get("response")))
        elif payload.get("object") == "response":
            yield from self._end(payload)

    def finish(self, *, done: bool) -> Iterator[ModelEvent]:
        """Yield the `Reply`. Raises `Unavailable` for a stream that was cut."""
        if self.finish_reason is None:
            raise Unavailable(t("the model's reply was cut off"))
        items = [self._items[index] for index in sorted(self._items)]
        for item in items:
            yield from item.stream.pause()
        # A server that separates thinking leaves no tags in the text.
        if not any(item.stream.thinking for item in items):
            for item in items:
                item.stream.take_unopened_thoughts()
        voids_text = any(item.stream.voids_text for item in items)
        cut = self.finish_reason == "length"
        calls = tuple(_call(item, cut=cut) for item in items if item.kind in _CALLS)
        reason = FILTERED if self._has_refused else self.finish_reason
        if calls and reason == "stop":
            reason = "tool_calls"
        message = Message("assistant", tuple(_parts(items)), calls)
        yield Reply(message, self._usage, reason, voids_text=voids_text)

    def _item(self, index: int, kind: str) -> _Item:
        """Return the item at the index; create it if the server never announced it."""
        if index not in self._items:
            self._items[index] = _Item(kind, {})
        item = self._items[index]
        if kind in _CALLS and not item.call_id:
            item.call_id = self._unused_id(text_of(item.data.get("call_id")))
        return item

    def _unused_id(self, call_id: str) -> str:
        """Return the call's id, or a generated one if it is missing or already used."""
        used_ids = {item.call_id for item in self._items.values()}
        call_id = replace_lone_surrogates(call_id)
        if call_id and call_id not in used_ids:
            return call_id
        number = self._number()
        while f"call_{number}" in used_ids:
            number += 1
        return f"call_{number}"

    def _open(self, index: int, data: JsonObject) -> Iterator[ModelEvent]:
        kind = text_of(data.get("type"))
        self._items[index] = _Item(kind, data)
        if kind in _CALLS:
            item = self._item(index, kind)
            yield from self._others_pause(index)
            yield ToolCallDelta(item.call_id, item.name, "")

    def _grow(self, item: _Item, delta: object) -> Iterator[ModelEvent]:
        if piece := replace_lone_surrogates(text_of(delta)):
            item.pieces.append(piece)
            yield ToolCallDelta(item.call_id, item.name, piece)

    def _close(self, index: int, data: JsonObject) -> Iterator[ModelEvent]:
        """Complete the item; emit the part that was in no delta."""
        kind = text_of(data.get("type"))
        if index not in self._items:
            yield from self._open(index, data)
        item = self._items[index]
        item.kind, item.data = kind or item.kind, {**item.data, **data}
        if item.kind == "message":
            self._has_refused = self._has_refused or _has_refusal(data)
            yield from item.stream.add_text(_rest(_message_text(data), item.stream.text))
        elif item.kind == "reasoning":
            yield from item.stream.add_thinking(_rest(_reasoning_text(data), item.stream.thinking))
        elif item.kind in _CALLS:
            arguments = replace_lone_surrogates(text_of(data.get("arguments")))
            if item.kind == "custom_tool_call":
                arguments = _encode_argument(text_of(data.get("input")))
            yield from self._grow(
                self._item(index, item.kind), _rest(arguments, "".join(item.pieces))
            )
        yield from item.stream.pause()

    def _others_pause(self, index: int) -> Iterator[ModelEvent]:
        for place, item in self._items.items():
            if place != index:
                yield from item.stream.pause()

    def _end(self, response: JsonObject) -> Iterator[ModelEvent]:
        output = response.get("output")
        for index, data in enumerate(output if isinstance(output, list) else ()):
            if isinstance(data, dict) and not self._is_complete(index):
                yield from self._close(index, data)
        self._usage = _tokens(response.get("usage")) or self._usage
        details = _object(response.get("incomplete_details"))
        match text_of(details.get("reason")):
            case "max_output_tokens":
                self.finish_reason = "length"
            case "content_filter":
                self.finish_reason = FILTERED
            case _:
                self.finish_reason = "length" if response.get("status") == "incomplete" else "stop"

    def _is_complete(self, index: int) -> bool:
        return index in self._items and self._items[index].is_done


def _parts(items: list[_Item]) -> Iterator[Part]:
    """Yield text and thinking in order, with markers for calls before later parts."""
    last = max((n for n, item in enumerate(items) if item.kind not in _CALLS), default=-1)
    for n, item in enumerate(items):
        match item.kind:
            case "message":
                if phase := text_of(item.data.get("phase")):
                    yield Thinking("", phase_signature(phase))
                if item.stream.thinking:
                    yield Thinking(item.stream.thinking)
                if item.stream.text:
                    yield Text(item.stream.text)
            case "reasoning":
                signature = reasoning_signature(item.data)
                if item.stream.thinking or signature:
                    yield Thinking(item.stream.thinking, signature)
            case "function_call" | "custom_tool_call" if n < last:
                yield ToolCallMarker(item.call_id)


def _call(item: _Item, *, cut: bool) -> ToolCall:
    is_cut = cut and item.data.get("status") != "completed"
    return parse_tool_call(item.call_id, item.name, "".join(item.pieces), cut=is_cut)


def _as_argument(item: _Item, piece: str) -> str:
    """Return the next piece of the JSON object for a free text."""
    encoded = _encode_argument(piece)
    beginning = "" if item.pieces else encoded[: len(_ARGUMENT)]
    return beginning + encoded[len(_ARGUMENT) : -len(_ARGUMENT_END)]


def _encode_argument(text: str) -> str:
    """Return a JSON object with the free text of a call as its only argument."""
    text = json.dumps(replace_lone_surrogates(text), ensure_ascii=False)[1:-1]
    return f"{_ARGUMENT}{text}{_ARGUMENT_END}"


def _rest(full_text: str, streamed_text: str) -> str:
    """Return the part of the whole that was not streamed; empty if the stream differs."""
    return full_text[len(streamed_text) :] if full_text.startswith(streamed_text) else ""


def _message_text(data: JsonObject) -> str:
    content = data.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content or () if isinstance(part, dict)]
    return "".join(text_of(part.get("text")) or text_of(part.get("refusal")) for part in parts)


def _has_refusal(data: JsonObject) -> bool:
    content = data.get("content")
    parts = content if isinstance(content, list) else ()
    return any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts)


def _reasoning_text(data: JsonObject) -> str:
    for name in ("summary", "content"):
        parts = data.get(name)
        texts = [
            text_of(part.get("text"))
            for part in (parts if isinstance(parts, list) else ())
            if isinstance(part, dict)
        ]
        if any(texts):
            return "\n\n".join(texts)
    return ""


def _tokens(data: object) -> Usage | None:
    if not isinstance(data, dict):
        return None
    details = _object(data.get("input_tokens_details"))
    return Usage(
        count_of(data.get("input_tokens")),
        count_of(data.get("output_tokens")),
        count_of(details.get("cached_tokens")),
    )


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _index(payload: JsonObject) -> int:
    index = payload.get("output_index")
    return index if isinstance(index, int) else 0
