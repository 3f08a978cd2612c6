"""Builder of replies from chat completion chunks: text, thinking, tool calls, usage.

Chunks: https://platform.openai.com/docs/api-reference/chat-streaming/streaming
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.errors import BadReply, Unavailable
from agent.events import FILTERED, ModelEvent, Reply, ToolCallDelta
from agent.i18n import t
from agent.providers.http.json_stream import JsonObject
from agent.providers.openai.unknown_fields import UnknownFields
from agent.providers.text_stream import TextStream
from agent.providers.tool_calls import parse_tool_call
from agent.providers.wire_text import count_of, text_of
from agent.text.visible import replace_lone_surrogates
from agent.types import Message, Part, Text, Thinking, Usage

# Observed variants: `reasoning_content` or `reasoning`, content as a list of parts, usage on the
# choice or under `x_groq`, the older `function_call`, a whole `message` in place of a `delta`.


def first_choice(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the only requested choice; None in chunks with only the usage."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else None


def delta_of(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the delta of the chunk, or the whole message of a reply that is not streamed."""
    delta = choice.get("delta") or choice.get("message")
    return delta if isinstance(delta, dict) else {}


def text_of_delta(delta: Mapping[str, Any]) -> str:
    """Return the text for a person."""
    content = delta.get("content") or delta.get("refusal")
    return _join_parts(content, "text") if isinstance(content, list) else text_of(content)


def thinking_of_delta(delta: Mapping[str, Any]) -> str:
    """Return the reasoning."""
    content = delta.get("content")
    inside = _join_parts(content, "thinking") if isinstance(content, list) else ""
    return text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning")) or inside


def usage_of(payload: Mapping[str, Any]) -> Usage | None:
    """Return the tokens counted so far, if the chunk contains them."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        for place in (first_choice(payload), payload.get("x_groq")):
            if place and isinstance(usage := place.get("usage"), dict):
                break
    return _tokens(usage) if isinstance(usage, dict) else None


def _join_parts(parts: list[Any], kind: str) -> str:
    """Join the parts of one kind; a thinking part may itself be a list of text parts."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type", "text") == kind:
            value = part.get(kind)
            texts.append(_join_parts(value, "text") if isinstance(value, list) else text_of(value))
    return "".join(texts)


def calls_of(delta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pieces of tool calls."""
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        return [call for call in calls if isinstance(call, dict)]
    old = delta.get("function_call")
    return [{"index": 0, "function": old}] if isinstance(old, dict) else []


def _tokens(data: Mapping[str, Any]) -> Usage:
    details = data.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = cached or data.get("prompt_cache_hit_tokens") or data.get("cached_tokens")
    return Usage(
        count_of(data.get("prompt_tokens")),
        count_of(data.get("completion_tokens")),
        count_of(cached),
    )


# OpenAI and most others; Gemini with its reason after a colon, or in its own words; Zhipu.
_FILTERED = re.compile(
    r"content_filter|refusal|sensitive|safety|prohibited_content|blocklist|recitation|spii", re.I
)
_FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})


@dataclass(slots=True)
class _Call:
    id: str
    index: int | None
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def raw(self) -> str:
        return "".join(self.pieces)


class OpenAIResponseBuilder:
    """Converter of stream chunks to model events.

    `number` returns the first number for ids that the server did not send. `server` is the name of
    the address, to which alone the reply's unknown fields are sent back.
    """

    def __init__(self, number: Callable[[], int], server: str = "") -> None:
        self.finish_reason: str | None = None
        self._number = number
        self._speech = TextStream()
        self._server = server
        self._unknown_fields = UnknownFields()
        self._calls: list[_Call] = []
        self._usage: Usage | None = None
        self._chunks = 0
        self._has_refused = False

    def add(self, payload: JsonObject) -> Iterator[ModelEvent]:
        """Yield the events of one chunk. Raises `Unavailable` when the model failed."""
        self._usage = usage_of(payload) or self._usage
        choice = first_choice(payload)
        if choice is None:
            return
        self._chunks += 1
        delta = delta_of(choice)
        self._unknown_fields.add_to_message(delta)
        self._has_refused = self._has_refused or bool(text_of(delta.get("refusal")))
        yield from self._speech.add_thinking(thinking_of_delta(delta))
        yield from self._speech.add_text(text_of_delta(delta))
        for call in calls_of(delta):
            yield from self._call(call)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason in _FAILED:
                raise Unavailable(t("the model stopped mid-reply ({reason})", reason=reason))
            self.finish_reason = FILTERED if _FILTERED.match(reason) else reason

    def finish(self, *, done: bool) -> Iterator[ModelEvent]:
        """Yield the last events and the `Reply`. Raises `Unavailable` for a cut stream."""
        if self._chunks == 0 and done:
            raise BadReply(t("the model server closed the stream before the reply started"))
        if not (done or self.finish_reason):
            raise Unavailable(t("the model's reply was cut off"))
        yield from self._speech.pause()
        self._speech.take_unopened_thoughts()
        reason = FILTERED if self._has_refused else self.finish_reason
        yield Reply(self._message(), self._usage, reason, voids_text=self._speech.voids_text)

    def _message(self) -> Message:
        content: list[Part] = []
        if self._speech.thinking:
            content.append(Thinking(self._speech.thinking))
        if signature := self._unknown_fields.signature(self._server):
            content.append(Thinking("", signature))
        if self._speech.text:
            content.append(Text(self._speech.text))
        cut = self.finish_reason == "length"
        calls = tuple(parse_tool_call(c.id, c.name, c.raw, cut=cut) for c in self._calls)
        return Message("assistant", tuple(content), calls)

    def _call(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        yield from self._speech.pause()
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name = replace_lone_surrogates(text_of(function.get("name")))
        index = delta["index"] if isinstance(delta.get("index"), int) else None
        call_id = replace_lone_surrogates(text_of(delta.get("id")))
        call = self._find(index, call_id, name) or self._open(index, call_id)
        if name and name != call.name and not call.raw:
            call.name += name
        self._unknown_fields.add_to_call(call.id, delta)
        piece = function.get("arguments")
        if isinstance(piece, dict):
            piece = json.dumps(piece, ensure_ascii=False, separators=(",", ":"))
        piece = replace_lone_surrogates(piece) if isinstance(piece, str) else ""
        call.pieces.append(piece)
        yield ToolCallDelta(call.id, call.name, piece)

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that this delta continues; None if it begins a new call.

        Some servers number every call 0, some do not number calls, and some send no id. A complete
        call followed by a name under another id (or none) therefore means a new call.
        """
        same = [call for call in self._calls if index is None or call.index == index]
        same_id = [call for call in same if call_id and call.id == call_id]
        if same_id:
            return same_id[-1]
        if not same and self._calls and not (call_id or name):
            # Some servers count the pieces of arguments as separate calls.
            return self._calls[-1]
        if not same or (call_id and index is None):
            return None
        last = same[-1]
        begins = name and last.name and (call_id or index is None)
        return None if begins and _complete(last.raw) else last

    def _open(self, index: int | None, call_id: str) -> _Call:
        used_ids = {call.id for call in self._calls}
        if not call_id or call_id in used_ids:
            number = self._number()
            while (call_id := f"call_{number}") in used_ids:
                number += 1
        call = _Call(call_id, index)
        self._calls.append(call)
        return call


def _complete(raw: str) -> bool:
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
