"""Tool calls as vendors send them: arguments read once, and ids where the server forgot them."""

import json
import re
from collections.abc import Iterable

from agent.providers.wire_text import replace_lone_surrogates
from agent.types import Message, ToolCall

_MADE_ID = re.compile(r"call_(\d+)")


# Deeper ones are a model that has lost its way, and overflow the stack wherever they are copied.
_LEVELS = 64


def parse_tool_call(call_id: str, name: str, raw: str, *, cut: bool = False) -> ToolCall:
    """A call with its arguments read; they are None when `raw` is no JSON object, or one
    that is nested beyond reason.

    No text at all means no arguments, unless the reply was `cut` at the token limit.
    """
    if not raw.strip():
        return ToolCall(call_id, name, None if cut else {}, raw)
    try:
        arguments = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return ToolCall(call_id, name, None, raw)
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


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _is_deep(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    deeper = (one for one in inner if isinstance(one, dict | list))
    return levels == 0 or any(_is_deep(one, levels - 1) for one in deeper)
