"""Encoder for Anthropic's messages API; the blocks of each message are encoded once.

Body: https://platform.claude.com/docs/en/api/messages/create
"""

import hashlib
import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from agent.prompts import load_prompt
from agent.providers.anthropic.cache_lifetime import CacheLifetimes
from agent.providers.base import ModelRequest
from agent.providers.effort import EFFORT, asks_for_thoughts, without_effort
from agent.providers.model_settings import is_forced, schema_in
from agent.providers.wire_text import (
    RequestHeadCache,
    encode_json,
    sendable_tool_name,
    text_with_context,
    without_omitted,
)
from agent.types import (
    Image,
    Message,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
)

# From this version on, the body has no temperature.
VERSION = "2026-10-21"
OLD_VERSION = "2023-06-01"

_REPLY_TOKENS = 16_000
_THOUGHTFUL_REPLY_TOKENS = 32_000
# Limit for models that can write more, because the reply takes space in the window, too.
_LONG_REPLY_TOKENS = 64_000
_THINKING_TOKENS = 8_000
_MIN_THINKING_TOKENS = 1_024
# For models that take a budget instead of an effort.
_EFFORT_TOKENS = {"minimal": 1_024, "low": 2_048, "high": 16_000, "xhigh": 24_000, "max": 32_000}
# Efforts with another name here. https://platform.claude.com/docs/en/build-with-claude/effort
_LEVELS = {"minimal": "low", "xhigh": "max"}
_UNSUPPORTED = frozenset({"seed", "frequency_penalty", "presence_penalty", "verbosity"})
_KEY = "anthropic"
_CACHE_CONTROL = "cache_control"
_CACHED = b',"cache_control":{"type":"ephemeral"}}'
_CACHED_FOR_AN_HOUR = b',"cache_control":{"type":"ephemeral","ttl":"1h"}}'
_TTL = "ttl"
_REQUIRED = frozenset({"max_tokens", "model", "stream"})
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
# claude-opus-4-6, claude-sonnet-5, claude-3-7-sonnet-20250219; a date is not a version.
_NUMBERS = re.compile(r"(?<!\d)\d{1,2}(?!\d)")


class AnthropicRequestEncoder:
    """Encoder of request bodies for one `version` of the API.

    `reply_tokens` is the longest reply that the model can give, if known.
    """

    def __init__(self, version: str, reply_tokens: int | None = None) -> None:
        self._version = version
        # Settings that this version of the API does not support.
        self.unsupported = _UNSUPPORTED | ({"top_p"} if version >= VERSION else set())
        self._reply_tokens = min(reply_tokens, _LONG_REPLY_TOKENS) if reply_tokens else None
        self._heads = {
            mark: RequestHeadCache(partial(self._head, mark=mark))
            for mark in (_CACHED, _CACHED_FOR_AN_HOUR)
        }
        self.lifetimes = CacheLifetimes()

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        fields = self._fields(request).keys() | {_CACHE_CONTROL}
        if self._mark(request) == _CACHED_FOR_AN_HOUR:
            fields |= {_TTL}
        return fields - request.adaptations - _REQUIRED

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as compact UTF-8 JSON.

        The system prompt and the last two messages of the user's side are marked for the cache, so
        that the cache entry of the last request is found even if several messages were added at
        once.
        """
        mark = self._mark(request)
        if not _may_think(request):
            request = replace(request, options=without_effort(request.options))
        turns = [
            (role, b",".join(filter(None, map(_blocks, group))))
            for role, group in groupby(request.messages, _role)
        ]
        turns = [(role, blocks) for role, blocks in turns if blocks]
        cached_turns = [n for n, (role, _) in enumerate(turns) if role == "user"][-2:]
        if _CACHE_CONTROL in request.adaptations:
            cached_turns = []
        messages = [
            _turn(role, blocks[:-1] + mark if n in cached_turns else blocks)
            for n, (role, blocks) in enumerate(turns)
        ]
        return self._heads[mark].of(request) + b",".join(messages) + b"]}"

    def _mark(self, request: ModelRequest) -> bytes:
        """Return the cache mark for the cheaper lifetime; only Anthropic itself offers two."""
        if self._version < VERSION or _TTL in request.adaptations:
            return _CACHED
        is_hour_cheaper = self.lifetimes.is_hour_cheaper(request.cache_key, time.time())
        return _CACHED_FOR_AN_HOUR if is_hour_cheaper else _CACHED

    def _head(self, request: ModelRequest, *, mark: bytes) -> bytes:
        head = encode_json(self._fields(request))[:-1]
        if request.system:
            # The mark also covers the tools, which the vendor reads first.
            block = encode_json({"type": "text", "text": request.system})
            if _CACHE_CONTROL not in request.adaptations:
                block = block[:-1] + mark
            head += b',"system":[' + block + b"]"
        return head + b',"messages":['

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        options = {
            name: value for name, value in request.options.items() if name not in self.unsupported
        }
        tool_choice, effort = (
            options.pop("tool_choice", None),
            options.pop(EFFORT, None),
        )
        parallel = options.pop("parallel_tool_calls", None)
        extra_body = options.pop("extra_body", None) or {}
        thinking = _thinking(request, effort)
        if is_forced(tool_choice) and request.tools and _thinks(thinking):
            # The API accepts only one of them.
            thinking = {"type": "disabled"}
        output_config: dict[str, Any] = {}
        if effort not in (None, "none") and is_adaptive(request.model):
            output_config["effort"] = _LEVELS.get(effort, effort)
        form = options.pop("response_format", None)
        if form is not None and (schema := schema_in(form)) is not None:
            # https://platform.claude.com/docs/en/build-with-claude/structured-outputs
            output_config["format"] = {"type": "json_schema", "schema": schema}
        if output_config:
            options["output_config"] = output_config
        fields: dict[str, Any] = {"model": request.model, "stream": True}
        fields["max_tokens"] = (
            request.max_tokens
            or self._reply_tokens
            or (_THOUGHTFUL_REPLY_TOKENS if _thinks(thinking) else _REPLY_TOKENS)
        )
        if thinking is not None:
            fields["thinking"] = thinking
        has_temperature = self._version < VERSION and not _thinks(thinking)
        if request.temperature is not None and has_temperature:
            fields["temperature"] = request.temperature
        fields |= {name: value for name, value in options.items() if value is not None}
        if request.tools:
            fields["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ]
            if choice := _tool_choice(tool_choice, parallel):
                fields["tool_choice"] = choice
        return without_omitted(fields | extra_body, request)


def is_adaptive(model: str) -> bool:
    """Return whether the model chooses its thinking time: Claude 4.6 and newer.

    https://platform.claude.com/docs/en/build-with-claude/thinking
    """
    if "claude" not in model:
        return False
    numbers = [int(number) for number in _NUMBERS.findall(model)]
    return tuple(numbers[:2]) >= (4, 6)


def _tool_choice(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    """Return the field `tool_choice`; None leaves the choice to the model."""
    if choice is None and parallel is None:
        return None
    kinds = {None: "auto", "auto": "auto", "none": "none", "required": "any"}
    data: dict[str, Any] = {"type": kinds.get(choice, "tool")}
    if data["type"] == "tool":
        data["name"] = choice
    if parallel is not None and choice != "none":
        data["disable_parallel_tool_use"] = not parallel
    return data


def _thinking(request: ModelRequest, effort: str | None) -> dict[str, Any] | None:
    """Return the field `thinking`; None leaves the choice to the model."""
    if effort is None:
        return None
    if effort == "none":
        return {"type": "disabled"}
    if is_adaptive(request.model):
        return {"type": "adaptive", "display": "summarized"}
    tokens = _EFFORT_TOKENS.get(effort, _THINKING_TOKENS)
    budget = min(tokens, (request.max_tokens or _THOUGHTFUL_REPLY_TOKENS) // 2)
    if budget < _MIN_THINKING_TOKENS:
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _may_think(request: ModelRequest) -> bool:
    """Return whether the request may ask for thinking.

    A model with a thinking budget thinks at the beginning of a turn or not at all. A turn that
    began without a thought, perhaps by another model, would be rejected.
    """
    if not asks_for_thoughts(request.options) or is_adaptive(request.model):
        return True
    last = next(
        (message for message in reversed(request.messages) if message.role == "assistant"), None
    )
    if last is None or not last.tool_calls:
        return True
    begins = next(
        (block for part in last.content if (block := _assistant_block(part, {}))), {"type": ""}
    )
    return "thinking" in begins["type"]


def _thinks(thinking: Mapping[str, Any] | None) -> bool:
    return thinking is not None and thinking["type"] != "disabled"


def _role(message: Message) -> str:
    """Return the message's side; tool results belong to the user.

    Adjacent messages of one side are merged.
    """
    return "assistant" if message.role == "assistant" else "user"


def _turn(role: str, blocks: bytes) -> bytes:
    return b'{"role":"' + role.encode() + b'","content":[' + blocks + b"]}"


def _blocks(message: Message) -> bytes:
    """Return the message's blocks, joined by commas."""
    encoded = message.wire.get(_KEY)
    if encoded is None:
        encoded = encode_json(_content(message))[1:-1]
        message.wire[_KEY] = encoded
    return encoded


def _content(message: Message) -> list[dict[str, Any]]:
    match message.role:
        case "tool":
            return [_result(message)]
        case "assistant":
            calls = {call.id: _call(call) for call in message.tool_calls}
            blocks = [block for part in message.content if (block := _assistant_block(part, calls))]
            blocks += calls.values()
            silent = all(block["type"].endswith("thinking") for block in blocks)
            return (
                [*blocks, {"type": "text", "text": load_prompt("said_nothing")}]
                if silent
                else blocks
            )
        case _:
            images = [_picture(part) for part in message.content if isinstance(part, Image)]
            return [*images, *_text(text_with_context(message))]


def _assistant_block(part: Part, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the part's block; a call placed among the parts is removed from `calls`."""
    match part:
        case ToolCallMarker(call_id):
            return calls.pop(call_id, None)
        case Text(text):
            return next(iter(_text(text)), None)
        # Thinking without a signature, or with another vendor's, would be rejected.
        case Thinking(text, signature) if signature and not signature.startswith("{"):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case RedactedThinking(data):
            return {"type": "redacted_thinking", "data": data}
    return None


def _text(text: str) -> Sequence[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _picture(image: Image) -> dict[str, Any]:
    data = b64encode(image.data).decode()
    source = {"type": "base64", "media_type": image.media_type, "data": data}
    return {"type": "image", "source": source}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = {"unreadable": call.raw} if call.arguments is None else dict(call.arguments)
    return {
        "type": "tool_use",
        "id": _id(call.id),
        "name": sendable_tool_name(call),
        "input": arguments,
    }


def _result(message: Message) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(message.tool_call_id or "")}
    images = [_picture(part) for part in message.content if isinstance(part, Image)]
    if images:
        block["content"] = [*_text(message.text), *images]
    elif text := message.text:
        block["content"] = text
    return block | {"is_error": True} if message.is_error else block


def _id(call_id: str) -> str:
    """Return an id that Anthropic accepts; other vendors' ids may contain any characters."""
    if call_id and not _NOT_IN_AN_ID.search(call_id):
        return call_id
    digest = hashlib.sha256(json.dumps(call_id).encode()).hexdigest()[:12]
    return f"{_NOT_IN_AN_ID.sub('_', call_id)[:40]}_{digest}"
