"""Tool call parsing: arguments, and ids for servers that send none."""

import json
import re
from collections.abc import Iterable
from typing import Any

from agent.text.visible import replace_lone_surrogates
from agent.types import Message, ToolCall

_MADE_ID = re.compile(r"call_(\d+)")
# Patterns for arguments that are not JSON; they are compiled on first use, because few models
# need a repair.
_FENCE = r"(?s)\s*```(?:json)?\s*\n(.*)\n\s*```\s*"
_STRING = r'("(?:[^"\\]|\\[\s\S])*")'
_TRAILING_COMMA = _STRING + r"|,(\s*[}\]])"
_PYTHON_WORD = _STRING + r"|\b(True|False|None)\b"
_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}

# Deeper nesting is a model's malfunction, and overflows the stack wherever it is copied.
_MAX_LEVELS = 64


def parse_tool_call(call_id: str, name: str, raw: str, *, cut: bool = False) -> ToolCall:
    """Return a call with parsed arguments.

    The arguments are None when `raw` is not a JSON object or is nested too deeply. Errors with only
    one possible correction are repaired, and `raw` becomes the repaired text. Empty text means no
    arguments, unless the reply was `cut` at the token limit.
    """
    if not raw.strip():
        return ToolCall(call_id, name, None if cut else {}, raw)
    try:
        arguments = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        arguments = _repaired(raw)
        raw = raw if arguments is None else json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, dict) or _is_deep(arguments, _MAX_LEVELS):
        return ToolCall(call_id, name, None, raw)
    if "\\u" in raw:
        text = json.dumps(arguments, ensure_ascii=False)
        if (mended := replace_lone_surrogates(text)) != text:
            return ToolCall(call_id, name, json.loads(mended), mended)
    return ToolCall(call_id, name, arguments, raw)


def next_call_number(messages: Iterable[Message]) -> int:
    """Return the number after the highest `call_N` in the conversation."""
    matches = (_MADE_ID.fullmatch(call.id) for message in messages for call in message.tool_calls)
    return max((int(match[1]) for match in matches if match), default=0) + 1


def _repaired(raw: str) -> dict[str, Any] | None:
    """Return the intended object if it is certain, else None.

    Handles a code fence, trailing commas, Python's constants, line breaks inside strings and an
    object written twice. Truncated text is not repaired.
    """
    fence = re.fullmatch(_FENCE, raw)
    text = (fence[1] if fence else raw).strip()
    text = re.sub(_TRAILING_COMMA, lambda match: match[1] or match[2], text)
    text = re.sub(_PYTHON_WORD, lambda match: match[1] or _JSON_WORDS[match[2]], text)
    objects: list[dict[str, Any]] = []
    while text:
        try:
            value, end = _LENIENT.raw_decode(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        # Some servers send an empty object before the real one.
        if value and value not in objects:
            objects.append(value)
        text = text[end:].lstrip()
    return objects[0] if len(objects) == 1 else None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _is_deep(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deeper = (item for item in inner if isinstance(item, dict | list))
    return levels == 0 or any(_is_deep(item, levels - 1) for item in deeper)


_LENIENT = json.JSONDecoder(parse_constant=_refuse, strict=False)
