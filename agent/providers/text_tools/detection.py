"""Detection of tool calls that models with native tools write as text.

Small models, and servers that apply the wrong chat template, write `<tool_call>{…}</tool_call>`, or
only the call's JSON, in any of these forms:

{"name": "exec", "arguments": {"command": "ls"}}
{"type": "function", "name": "exec", "parameters": {"command": "ls"}}
{"function": {"name": "exec", "arguments": "{\\"command\\": \\"ls\\"}"}}
[TOOL_CALLS][{"name": "exec", "arguments": {"command": "ls"}}]
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from agent.providers.base import ToolSpec
from agent.providers.text_tools.parser import ParsedCall, TextToolParser
from agent.providers.text_tools.provider import parse_text_reply
from agent.providers.tool_calls import parse_tool_call
from agent.records import frozen
from agent.types import ToolCall

# Text is withheld until this many characters show whether it begins like a call.
_ENOUGH_CHARS = 32
_BEGINS = re.compile(
    r"\s*(?:```\w*\s*)?(?:\[TOOL_CALLS\]|<\|python_tag\|>)?\s*(?:\[\s*)?"
    r"(?:\{\s*\"(?:name|function|tool|type|id|arguments|parameters)\"|<tool(?:_call)?[\s>])"
)
_MAY_BEGIN = re.compile(r"\s*(?:[`\[{<]|\Z)")
_WHOLE = re.compile(
    r"\s*(?:```\w*\s*)?(?:\[TOOL_CALLS\]|<\|python_tag\|>)?\s*([\[{].*[\]}])\s*(?:```)?\s*",
    re.DOTALL,
)
_CALLS_LIMIT = 32


class DetectionBuffer:
    """Buffer that withholds streamed text while it may be a call."""

    def __init__(self) -> None:
        self._text: str | None = ""

    def add(self, text: str) -> str:
        """Add text; return the part that can be shown now."""
        if self._text is None:
            return text
        self._text += text
        short = len(self._text) < _ENOUGH_CHARS and _MAY_BEGIN.match(self._text)
        return "" if short or _BEGINS.match(self._text) else self.release()

    def release(self) -> str:
        """Return all withheld text; nothing is withheld from now on."""
        text, self._text = self._text or "", None
        return text


@frozen
class DetectedCalls:
    """Calls in a text, and the text without them."""

    calls: tuple[ToolCall, ...]
    text: str = ""


def detect_calls(text: str, tools: Mapping[str, ToolSpec], number: int) -> DetectedCalls | None:
    """Return the calls if the text is, or ends with, only whole calls of these tools.

    Returns None for any other text. `number` is the number of the first generated id.
    """
    if not tools:
        return None
    tagged = _parse_tagged(text, tools, number) if "<tool" in text else None
    if tagged is not None:
        return tagged
    match = _WHOLE.fullmatch(text)
    calls = _bare(match[1], tools, number) if match else ()
    return DetectedCalls(calls) if calls else None


def _parse_tagged(text: str, tools: Mapping[str, ToolSpec], number: int) -> DetectedCalls | None:
    reader = TextToolParser()
    pieces = [*reader.feed(text), *reader.end()]
    parsed_calls = [piece for piece in pieces if isinstance(piece, ParsedCall)]
    if not parsed_calls or any(call.name not in tools or not call.whole for call in parsed_calls):
        return None
    first = pieces.index(parsed_calls[0])
    if any(isinstance(piece, str) and piece.strip() for piece in pieces[first:]):
        return None
    calls = tuple(
        parse_text_reply(f"call_{number + n}", parsed, tools[parsed.name].parameters)
        for n, parsed in enumerate(parsed_calls)
    )
    return DetectedCalls(
        calls, "".join(piece for piece in pieces[:first] if isinstance(piece, str)).rstrip()
    )


def _bare(text: str, tools: Mapping[str, ToolSpec], number: int) -> tuple[ToolCall, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    values = value if isinstance(value, list) else [value]
    calls = [
        _call(item, tools, f"call_{number + n}") for n, item in enumerate(values[:_CALLS_LIMIT])
    ]
    return tuple(call for call in calls if call) if values and all(calls) else ()


def _call(value: Any, tools: Mapping[str, ToolSpec], call_id: str) -> ToolCall | None:
    if isinstance(value, dict) and isinstance(inner := value.get("function"), dict):
        value = inner
    if not isinstance(value, dict):
        return None
    name = value.get("name", value.get("tool", value.get("function")))
    argument_values = [
        value[key] for key in ("arguments", "parameters", "args", "input") if key in value
    ]
    if not isinstance(name, str) or name not in tools or len(argument_values) > 1:
        return None
    arguments = argument_values[0] if argument_values else {}
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return parse_tool_call(call_id, name, raw)
