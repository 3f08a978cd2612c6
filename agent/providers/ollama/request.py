"""Encoder for Ollama's chat API; each message is encoded once.

Body: https://docs.ollama.com/api/chat
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.wire_text import (
    RequestHeadCache,
    encode_json,
    function_of,
    sendable_tool_name,
    text_with_context,
    without_omitted,
)
from agent.types import Image, Message, Thinking, ToolCall

_KEY = "ollama"
# Fields of the body itself; every other setting is an option of the model.
_FIELDS = frozenset({"format", "keep_alive", "logprobs", "think", "top_logprobs"})
# Settings without a field in this API; `tool_choice` "none" leaves out the tools instead.
UNSUPPORTED = frozenset({"parallel_tool_calls", "tool_choice"})
# Without `num_ctx`, Ollama silently cuts off the beginning of the conversation.
_REQUIRED = frozenset({"model", "num_ctx", "options", "stream"})
# Efforts outside the three levels.
_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}


class OllamaRequestEncoder:
    """Encoder of request bodies; `context_tokens` is the window that Ollama opens.

    Ollama silently cuts off the beginning of a conversation that exceeds its window, so each
    request states the size that Kore counts with.
    """

    def __init__(self, context_tokens: int | None) -> None:
        self._context_tokens = context_tokens
        self._heads = RequestHeadCache(self._head)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the optional fields of the body and options of the model."""
        fields = self._fields(request)
        options = fields["options"]
        return {*fields, *(options if isinstance(options, dict) else ())} - _REQUIRED

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as compact UTF-8 JSON."""
        head = self._heads.of(request)
        comma = b"," if request.messages and not head.endswith(b"[") else b""
        return b"".join((head, comma, b",".join(_encode_messages(request.messages)), b"]}"))

    def _head(self, request: ModelRequest) -> bytes:
        head = encode_json(self._fields(request))[:-1] + b',"messages":['
        if request.system:
            head += encode_json({"role": "system", "content": request.system})
        return head

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": request.model, "stream": True}
        request_options = dict(request.options)
        extra_body = request_options.pop("extra_body", None) or {}
        has_tools = bool(request.tools) and request_options.get("tool_choice") != "none"
        for name in UNSUPPORTED:
            request_options.pop(name, None)
        if "stop_sequences" in request_options:
            request_options["stop"] = request_options.pop("stop_sequences")
        thinking = request_options.pop("thinking", None)
        if (effort := request_options.pop("reasoning_effort", None)) is not None:
            level = _LEVELS.get(effort, effort)
            fields["think"] = level if level != "none" else False
        elif isinstance(thinking, bool):
            # This family supports only levels. https://docs.ollama.com/capabilities/thinking
            levels = "gpt-oss" in request.model
            fields["think"] = ("high" if thinking else "low") if levels else thinking
        options = {
            "num_ctx": self._context_tokens,
            "temperature": request.temperature,
            "num_predict": request.max_tokens,
        }
        for name, value in request_options.items():
            (fields if name in _FIELDS else options)[name] = value
        options = {name: value for name, value in options.items() if value is not None}
        fields["options"] = without_omitted(options, request)
        if has_tools:
            fields["tools"] = [function_of(tool) for tool in request.tools]
        return without_omitted(fields | extra_body, request)


def _encode_messages(messages: Sequence[Message]) -> list[bytes]:
    encoded: list[bytes] = []
    names: dict[str, str] = {}
    for message in messages:
        for call in message.tool_calls:
            names[call.id] = sendable_tool_name(call)
        wire = message.wire.get(_KEY)
        if wire is None:
            name = names.get(message.tool_call_id or "")
            wire = message.wire[_KEY] = encode_json(_message(message, name))
        encoded.append(wire)
    return encoded


def _message(message: Message, tool_name: str | None) -> dict[str, Any]:
    match message.role:
        case "tool":
            data = {"role": "tool", "content": message.text, "tool_call_id": message.tool_call_id}
            return data | ({"tool_name": tool_name} if tool_name else {}) | _pictures(message)
        case "assistant":
            return _assistant(message)
        case _:
            data = {"role": message.role, "content": text_with_context(message)}
            return data | _pictures(message)


def _pictures(message: Message) -> dict[str, Any]:
    images = [part for part in message.content if isinstance(part, Image)]
    return {"images": [b64encode(image.data).decode() for image in images]} if images else {}


def _assistant(message: Message) -> dict[str, Any]:
    text = message.text
    if not text.strip():
        text = "" if message.tool_calls else load_prompt("said_nothing")
    data: dict[str, Any] = {"role": "assistant", "content": text}
    thinking = "".join(part.text for part in message.content if isinstance(part, Thinking))
    if thinking and message.tool_calls:
        data["thinking"] = thinking
    if message.tool_calls:
        data["tool_calls"] = [_call(call) for call in message.tool_calls]
    return data


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = {"unreadable": call.raw} if call.arguments is None else dict(call.arguments)
    return {"id": call.id, "function": {"name": sendable_tool_name(call), "arguments": arguments}}
