"""Encoding helpers for all vendors: UTF-8, JSON, tool names and cached request heads."""

import json
import math
from collections.abc import Callable
from typing import Any

from agent.providers.base import ModelRequest, ToolSpec, plain_name
from agent.text.visible import replace_lone_surrogates
from agent.types import Context, Message, Text, ToolCall

_MAX_CACHED_HEADS = 32


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class RequestHeadCache:
    """Cache of the latest request heads: the part of a request before its messages."""

    def __init__(self, write: Callable[[ModelRequest], bytes]) -> None:
        self._write = write
        # The value references the tools, so that their ids in the key stay valid.
        self._cache: dict[tuple[object, ...], tuple[bytes, tuple[ToolSpec, ...]]] = {}

    def __len__(self) -> int:
        return len(self._cache)

    def of(self, request: ModelRequest) -> bytes:
        tools = tuple(request.tools)
        options = json.dumps(dict(request.options), sort_keys=True, default=repr)
        key = (
            request.model,
            request.system,
            request.temperature,
            request.max_tokens,
            options,
            tuple(map(id, tools)),
            request.adaptations,
            request.cache_key,
        )
        entry = self._cache.get(key)
        if entry is not None:
            return entry[0]
        if len(self._cache) >= _MAX_CACHED_HEADS:
            del self._cache[next(iter(self._cache))]
        head = self._write(request)
        self._cache[key] = (head, tools)
        return head


def without_omitted(fields: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Return the fields of a body without those that the server refused."""
    if not request.adaptations:
        return fields
    return {name: value for name, value in fields.items() if name not in request.adaptations}


def encode_json(value: object) -> bytes:
    """Return compact JSON in valid UTF-8, even for strings with lone surrogates."""
    return replace_lone_surrogates(_JSON.encode(value)).encode()


def function_of(tool: ToolSpec) -> dict[str, Any]:
    """Return the tool's description in the format of OpenAI and Ollama."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def text_with_context(message: Message) -> str:
    """Return the text and context of a user message in order, with context as paragraphs.

    Context before the first text is moved behind it.
    """
    text = early = ""
    has_words = is_behind_context = False
    for part in message.content:
        if isinstance(part, Text):
            text += "\n" + part.text.lstrip("\n") if is_behind_context else part.text
            has_words, is_behind_context = True, False
        elif isinstance(part, Context) and not has_words:
            early += f"\n\n{part.text}"
        elif isinstance(part, Context):
            text += f"{early}\n\n{part.text}"
            early, is_behind_context = "", True
    return text + early


def sendable_tool_name(call: ToolCall) -> str:
    """Return the tool's name in a form that vendors accept.

    An invalid name in the history would make every later request fail.
    """
    return plain_name(call.name)


def text_of(value: object) -> str:
    """Return the value if it is text, else an empty string."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return max(0, int(value)) if isinstance(value, int | float) else 0
