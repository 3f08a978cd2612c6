"""Requests as bytes: the OpenAI chat-completions body, each message encoded once.

Everything constant comes first and `messages` last, so that a request repeats the one before byte
for byte up to its new messages, and the vendor's prompt cache hits.
Body: https://platform.openai.com/docs/api-reference/chat/create
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.prompts import load
from agent.providers.base import ModelRequest, ToolSpec
from agent.types import Context, Message, Text, Thinking, ToolCall

_HEADS_KEPT = 32
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a vendor's endpoint differs from OpenAI's own.

    `replay_reasoning` sends the thinking of replies with tool calls back as `reasoning_content`;
    `replay_extra` sends back what a vendor attached to a tool call as `extra_content` (Gemini's
    thought signatures). `thinking` holds the body fields that switch reasoning on.
    """

    max_tokens_name: str = "max_tokens"
    stream_usage: bool = True
    replay_reasoning: bool = False
    replay_extra: bool = False
    thinking: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name under which a message keeps its encoding in this dialect."""
        flags = "+reasoning" * self.replay_reasoning + "+extra" * self.replay_extra
        return f"openai{flags}"


class Encoder:
    """Turns requests into bodies; remembers the heads of the last few conversations."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._key = dialect.key
        # The value holds the tools, so that their ids in the key stay theirs.
        self._heads: dict[tuple[object, ...], tuple[bytes, tuple[ToolSpec, ...]]] = {}

    def body(self, request: ModelRequest) -> bytes:
        """The request as compact UTF-8 JSON."""
        key = self._key
        messages = [message.wire.get(key) or self._encode(message) for message in request.messages]
        head = self._head(request)
        comma = b"," if messages and not head.endswith(b"[") else b""
        return b"".join((head, comma, b",".join(messages), b"]}"))

    def _encode(self, message: Message) -> bytes:
        encoded = encode_json(_message(message, self._dialect))
        message.wire[self._key] = encoded
        return encoded

    def _head(self, request: ModelRequest) -> bytes:
        tools = tuple(request.tools)
        options = json.dumps(dict(request.options), sort_keys=True, default=repr)
        key = (
            request.model,
            request.system,
            request.temperature,
            request.max_tokens,
            options,
            tuple(map(id, tools)),
        )
        known = self._heads.get(key)
        if known is not None:
            return known[0]
        if len(self._heads) >= _HEADS_KEPT:
            del self._heads[next(iter(self._heads))]
        head = encode_json(self._fields(request, tools))[:-1] + b',"messages":['
        if request.system:
            head += encode_json({"role": "system", "content": request.system})
        self._heads[key] = (head, tools)
        return head

    def _fields(self, request: ModelRequest, tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": request.model, "stream": True}
        if self._dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields[self._dialect.max_tokens_name] = request.max_tokens
        options = dict(request.options)
        if isinstance(options.get("thinking"), bool):
            fields |= self._dialect.thinking if options.pop("thinking") else {}
        fields |= {name: value for name, value in options.items() if value is not None}
        if tools:
            fields["tools"] = [_tool(tool) for tool in tools]
        return fields


def encode_json(value: object) -> bytes:
    """Compact JSON in valid UTF-8, whatever the strings hold."""
    return mend(_JSON.encode(value)).encode()


def mend(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def extra_to_signature(extra: Mapping[str, Any]) -> str:
    """What vendors attached to tool calls, by call id, as the signature of an empty `Thinking`."""
    return json.dumps({"extra_content": extra})


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _message(message: Message, dialect: Dialect) -> dict[str, Any]:
    text = "".join(part.text for part in message.content if isinstance(part, Text))
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
        case "assistant" if message.tool_calls:
            return _assistant_with_calls(message, text, dialect)
        case "assistant":
            # Some vendors refuse a whole conversation for one empty message in it.
            return {"role": "assistant", "content": text if text.strip() else load("said_nothing")}
        case "system":
            return {"role": "system", "content": text}
        case _:
            context = [part.text for part in message.content if isinstance(part, Context)]
            return {"role": message.role, "content": "\n\n".join([text, *context])}


def _assistant_with_calls(message: Message, text: str, dialect: Dialect) -> dict[str, Any]:
    thoughts = [part for part in message.content if isinstance(part, Thinking)]
    data: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
    reasoning = "".join(part.text for part in thoughts)
    if dialect.replay_reasoning and reasoning:
        data["reasoning_content"] = reasoning
    extra = _extra(thoughts) if dialect.replay_extra else {}
    data["tool_calls"] = [_call(call, extra.get(call.id)) for call in message.tool_calls]
    return data


def _call(call: ToolCall, extra: object) -> dict[str, Any]:
    # Vendors refuse a whole conversation for one odd name or unreadable argument text in it.
    raw = call.raw if call.arguments is not None else json.dumps({"unreadable": call.raw})
    name = _NOT_IN_A_NAME.sub("_", call.name)[:64] or "unnamed"
    function = {"name": name, "arguments": raw.strip() or "{}"}
    data: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
    return data if extra is None else data | {"extra_content": extra}


def _extra(thoughts: list[Thinking]) -> Mapping[str, Any]:
    for part in thoughts:
        if part.signature and part.signature.startswith('{"extra_content"'):
            extra = json.loads(part.signature)["extra_content"]
            return extra if isinstance(extra, dict) else {}
    return {}
