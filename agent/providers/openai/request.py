"""Encoder for OpenAI's chat completions API; each message is encoded once.

Constant fields come first and `messages` last, so that a request repeats the previous one byte for
byte up to its new messages, and the vendor's prompt cache hits.
Body: https://platform.openai.com/docs/api-reference/chat/create
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.prompts import load_prompt
from agent.providers.base import (
    NO_UNKNOWN_FIELDS,
    RENAMED_LIMIT,
    REPLAYED_THOUGHTS,
    ModelRequest,
)
from agent.providers.effort import EFFORT, nearest_effort
from agent.providers.openai.unknown_fields import has_unknown_fields, replayed_fields
from agent.providers.vendors import Dialect
from agent.providers.wire_text import (
    RequestHeadCache,
    encode_json,
    function_of,
    sendable_tool_name,
    text_with_context,
    without_omitted,
)
from agent.types import Image, Message, ReasoningEffort, Text, Thinking, ToolCall

# For models that expect reasoning even in replies without any; an empty string is refused.
_NO_REASONING = " "
# Signature that Gemini accepts for calls of other models.
# https://ai.google.dev/gemini-api/docs/thought-signatures
_UNSIGNED = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
# Key of a result's encoded pictures, which are the same for every vendor.
_PICTURES = "openai-pictures"
_PARALLEL = "parallel_tool_calls"
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
_REQUIRED = frozenset({"model", "stream"})


class OpenAIRequestEncoder:
    """Encoder of request bodies for one dialect and `server`, a name of its address."""

    def __init__(self, dialect: Dialect, server: str = "") -> None:
        self._dialect = dialect
        self._server = server
        self._replaying = replace(dialect, replay_reasoning=True)
        self._heads = RequestHeadCache(self._head)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the optional body fields and of the available adaptations."""
        names = self._fields(request).keys() - _REQUIRED
        if not self._dialect.replay_reasoning:
            names.add(REPLAYED_THOUGHTS)
        if request.max_tokens is not None:
            names.add(RENAMED_LIMIT)
        thoughts = (part for message in request.messages for part in _thoughts(message))
        if has_unknown_fields(thoughts, self._server):
            names.add(NO_UNKNOWN_FIELDS)
        return names - request.adaptations

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as compact UTF-8 JSON."""
        is_replaying = REPLAYED_THOUGHTS in request.adaptations
        dialect = self._replaying if is_replaying else self._dialect
        server = "" if NO_UNKNOWN_FIELDS in request.adaptations else self._server
        messages = list(_encode_messages(request.messages, dialect, server))
        head = self._heads.of(request)
        comma = b"," if messages and not head.endswith(b"[") else b""
        return b"".join((head, comma, b",".join(messages), b"]}"))

    def _head(self, request: ModelRequest) -> bytes:
        head = encode_json(self._fields(request))[:-1] + b',"messages":['
        if request.system:
            head += encode_json({"role": "system", "content": request.system})
        return head

    def _limit_name(self, request: ModelRequest) -> str:
        name = self._dialect.max_tokens_name
        is_renamed = RENAMED_LIMIT in request.adaptations
        return _LIMIT_NAMES[name == _LIMIT_NAMES[0]] if is_renamed else name

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": request.model, "stream": True}
        if self._dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields[self._limit_name(request)] = request.max_tokens
        options = dict(request.options)
        extra_body = options.pop("extra_body", None) or {}
        tool_choice, parallel = options.pop("tool_choice", None), options.pop(_PARALLEL, None)
        if "stop_sequences" in options:
            options["stop"] = options.pop("stop_sequences")
        if (effort := options.pop(EFFORT, None)) is not None:
            fields |= self._reasoning(effort)
        if request.cache_key and self._dialect.takes_cache_key:
            fields["prompt_cache_key"] = request.cache_key
        fields |= {name: value for name, value in options.items() if value is not None}
        if request.tools:
            fields["tools"] = [function_of(tool) for tool in request.tools]
            if tool_choice is not None:
                fields["tool_choice"] = _tool_choice(tool_choice)
            if parallel is not None:
                fields[_PARALLEL] = parallel
        return without_omitted(fields | extra_body, request)

    def _reasoning(self, effort: ReasoningEffort) -> dict[str, Any]:
        """Return the fields for an effort."""
        dialect = self._dialect
        if effort == "none" and dialect.no_thinking:
            return dict(dialect.no_thinking)
        if dialect.thinking:
            return dict(dialect.thinking)
        level = nearest_effort(effort, dialect.efforts)
        return {"reasoning": {"effort": level}} if dialect.nests_effort else {EFFORT: level}


def _tool_choice(choice: str) -> object:
    choice_of_one = {"type": "function", "function": {"name": choice}}
    return choice if choice in ("auto", "none", "required") else choice_of_one


def _encode_messages(messages: Sequence[Message], dialect: Dialect, server: str) -> Iterator[bytes]:
    """Yield each message, encoded once.

    The API takes no pictures in a result: pictures of adjacent results follow in a user message.
    """
    pictures: list[bytes] = []
    key = f"{dialect.key}@{server}" if server else dialect.key
    for message in messages:
        if pictures and message.role != "tool":
            yield _pictures_message(pictures)
            pictures = []
        if (encoded := message.wire.get(key)) is None:
            encoded = message.wire[key] = encode_json(_message(message, dialect, server))
        yield encoded
        # A plain result has one part, so most results need no search.
        if message.role == "tool" and len(message.content) > 1 and (image := _pictures_of(message)):
            pictures.append(image)
    if pictures:
        yield _pictures_message(pictures)


def _pictures_of(message: Message) -> bytes:
    encoded = message.wire.get(_PICTURES)
    if encoded is None:
        images = [_picture(part) for part in message.content if isinstance(part, Image)]
        encoded = message.wire[_PICTURES] = encode_json(images)[1:-1]
    return encoded


def _pictures_message(pictures: Sequence[bytes]) -> bytes:
    words = encode_json({"type": "text", "text": load_prompt("result_pictures")})
    return b'{"role":"user","content":[' + b",".join((words, *pictures)) + b"]}"


def _message(message: Message, dialect: Dialect, server: str) -> dict[str, Any]:
    text = "".join(part.text for part in message.content if isinstance(part, Text))
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
        case "assistant":
            return _assistant(message, text, dialect, server)
        case "system":
            return {"role": "system", "content": text}
        case _:
            return {"role": message.role, "content": _user_content(message)}


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    images = [part for part in message.content if isinstance(part, Image)]
    if not images:
        return text_with_context(message)
    text = text_with_context(message)
    return [*map(_picture, images), *([{"type": "text", "text": text}] if text.strip() else [])]


def _picture(image: Image) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(message: Message, text: str, dialect: Dialect, server: str) -> dict[str, Any]:
    thoughts = _thoughts(message)
    fields = replayed_fields(thoughts, server)
    # Some vendors refuse a whole conversation because of one empty message.
    empty = None if dialect.null_content else ""
    silence = empty if message.tool_calls else load_prompt("said_nothing")
    data: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else silence}
    if dialect.replay_reasoning:
        data["reasoning_content"] = "".join(part.text for part in thoughts) or _NO_REASONING
    data |= fields.message
    if message.tool_calls:
        unsigned = _UNSIGNED if dialect.signs_calls and not fields.calls else {}
        first, *others = message.tool_calls
        data["tool_calls"] = [
            _call(first, fields.calls.get(first.id, unsigned)),
            *(_call(call, fields.calls.get(call.id, {})) for call in others),
        ]
    return data


def _thoughts(message: Message) -> list[Thinking]:
    return [part for part in message.content if isinstance(part, Thinking)]


def _call(call: ToolCall, fields: Mapping[str, Any]) -> dict[str, Any]:
    # One unreadable argument text, like an odd name, would fail the whole conversation.
    raw = call.raw if call.arguments is not None else json.dumps({"unreadable": call.raw})
    function = {"name": sendable_tool_name(call), "arguments": raw.strip() or "{}"}
    function |= fields.get("function", {})
    return {"id": call.id, "type": "function", **fields, "function": function}
