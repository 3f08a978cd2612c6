"""Tool calls as vendors send them: arguments read once, and ids where the server forgot them."""

import json
import re
from collections.abc import Iterable
from typing import Any

from agent.providers.wire_text import replace_lone_surrogates
from agent.types import Message, ToolCall

_MADE_ID = re.compile(r"call_(\d+)")


_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)
_STRING = r'("(?:[^"\\]|\\.)*")'
_TRAILING_COMMA = re.compile(_STRING + r"|,(\s*[}\]])", re.DOTALL)
_PYTHON_WORD = re.compile(_STRING + r"|\b(True|False|None)\b", re.DOTALL)
_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}

# Deeper ones are a model that has lost its way, and overflow the stack wherever they are copied.
_LEVELS = 64


def parse_tool_call(call_id: str, name: str, raw: str, *, cut: bool = False) -> ToolCall:
    """A call with its arguments read; they are None when `raw` is no JSON object, or one
    that is nested beyond reason. What can be meant in one way only is repaired, and is then `raw`.

    No text at all means no arguments, unless the reply was `cut` at the token limit.
    """
    if not raw.strip():
        return ToolCall(call_id, name, None if cut else {}, raw)
    try:
        arguments = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        arguments = _repaired(raw)
        raw = raw if arguments is None else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, dict) or _is_deep(arguments, _LEVELS):
        return ToolCall(call_id, name, None, raw)
    if "\\u" in raw:
        text = json.dumps(arguments, ensure_ascii=False)
        if (mended := replace_lone_surrogates(text)) != text:
            return ToolCall(call_id, name, json.loads(mended), mended)
    return ToolCall(call_id, name, arguments, raw)


def next_call_number(messages: Iterable[Message]) -> int:
    """One more than the highest `call_N` in the conversation."""
    matches = (_MADE_ID.fullmatch(call.id) for message in messages for call in message.tool_calls)
    return max((int(match[1]) for match in matches if match), default=0) + 1


def _repaired(raw: str) -> dict[str, Any] | None:
    """The object that was meant, where that is certain: in a code fence, with a comma too many,
    Python's words for constants, line breaks inside of strings, or written twice. Text that ends
    too early is left alone."""
    fence = _FENCE.fullmatch(raw)
    text = (fence[1] if fence else raw).strip()
    text = _TRAILING_COMMA.sub(lambda match: match[1] or match[2], text)
    text = _PYTHON_WORD.sub(lambda match: match[1] or _JSON_WORDS[match[2]], text)
    objects: list[dict[str, Any]] = []
    while text:
        try:
            value, end = _LENIENT.raw_decode(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        # Some servers send an empty object in front of the real one.
        if value and value not in objects:
            objects.append(value)
        text = text[end:].lstrip()
    return objects[0] if len(objects) == 1 else None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _is_deep(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deeper = (one for one in inner if isinstance(one, dict | list))
    return levels == 0 or any(_is_deep(one, levels - 1) for one in deeper)


_LENIENT = json.JSONDecoder(parse_constant=_refuse, strict=False)
