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
from collections.abc import Sequence
from typing import Any

from agent.providers.base import ToolSpec, find_tool
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
# A call may also end a text: a tag withholds the rest, its beginning only until it is complete.
_TAG = re.compile(r"<tool_call>|<tool\s[^<>]*\bname\s*=")
_TAG_BEGINNING = re.compile(r"<tool\s[^<>]{0,100}\Z")
_TAG_NAME = "<tool_call>"
_MAY_BEGIN = re.compile(r"\s*(?:[`\[{<]|\Z)")
_WHOLE = re.compile(
    r"\s*(?:```\w*\s*)?(?:\[TOOL_CALLS\]|<\|python_tag\|>)?\s*([\[{].*[\]}])\s*(?:```)?\s*",
    re.DOTALL,
)
_CALLS_LIMIT = 32
# The parts of a call whose JSON is broken.
_BROKEN_NAME = re.compile(r'"(?:name|tool|function)"\s*:\s*"([^"\\]+)"')
_BROKEN_ARGUMENTS = re.compile(r'"(?:arguments|parameters|args|input)"\s*:')
_BROKEN = re.compile(
    r"\s*(?:```\w*\s*)?(?:\[TOOL_CALLS\]|<\|python_tag\|>)?\s*(?:\[\s*)?(\{.*)", re.DOTALL
)


class DetectionBuffer:
    """Buffer that withholds streamed text while it may be a call."""

    def __init__(self) -> None:
        self._text = ""
        self._has_begun = False

    def add(self, text: str) -> str:
        """Add text; return the part that can be shown now."""
        self._text += text
        if not self._has_begun:
            short = len(self._text) < _ENOUGH_CHARS and _MAY_BEGIN.match(self._text)
            if short or _BEGINS.match(self._text):
                return ""
            self._has_begun = True
        end = self._call_start()
        displayed, self._text = self._text[:end], self._text[end:]
        return displayed

    def release(self) -> str:
        """Return all withheld text; nothing is withheld from now on."""
        text, self._text = self._text, ""
        self._has_begun = True
        return text

    def _call_start(self) -> int:
        """Return the position at which a call begins or may begin, else the end of the text."""
        text = self._text
        if tag := _TAG.search(text) or _TAG_BEGINNING.search(text):
            return tag.start()
        start = text.rfind("<", -len(_TAG_NAME))
        return start if start >= 0 and _TAG_NAME.startswith(text[start:]) else len(text)


@frozen
class DetectedCalls:
    """Calls in a text, and the text without them."""

    calls: tuple[ToolCall, ...]
    text: str = ""


def detect_calls(text: str, tools: Sequence[ToolSpec], number: int) -> DetectedCalls | None:
    """Return the calls if the text is, or ends with, only calls of these tools.

    A call whose JSON is broken has no arguments. Returns None for any other text. `number` is the
    number of the first generated id.
    """
    if not tools:
        return None
    tagged = _parse_tagged(text, tools, number) if "<tool" in text else None
    if tagged is not None:
        return tagged
    match = _WHOLE.fullmatch(text)
    calls = _bare(match[1], tools, number) if match else ()
    if not calls and (broken := _BROKEN.match(text)) is not None and not _begins_json(broken[1]):
        call = _broken(broken[1], tools, f"call_{number}")
        calls = (call,) if call else ()
    return DetectedCalls(calls) if calls else None


def _parse_tagged(text: str, tools: Sequence[ToolSpec], number: int) -> DetectedCalls | None:
    reader = TextToolParser()
    pieces = [*reader.feed(text), *reader.end()]
    parsed_calls = [piece for piece in pieces if isinstance(piece, ParsedCall)]
    calls = [_tagged(parsed, tools, f"call_{number + n}") for n, parsed in enumerate(parsed_calls)]
    if not calls or not all(calls):
        return None
    first = pieces.index(parsed_calls[0])
    if any(isinstance(piece, str) and piece.strip() for piece in pieces[first:]):
        return None
    return DetectedCalls(
        tuple(filter(None, calls)),
        "".join(piece for piece in pieces[:first] if isinstance(piece, str)).rstrip(),
    )


def _tagged(parsed: ParsedCall, tools: Sequence[ToolSpec], call_id: str) -> ToolCall | None:
    if not parsed.name:
        return _broken(parsed.body, tools, call_id)
    tool = find_tool(tools, parsed.name)
    is_cut_json = not parsed.whole and parsed.body.lstrip().startswith("{")
    if tool is None or not (parsed.whole or is_cut_json):
        return None
    return parse_text_reply(call_id, parsed, tool.parameters)


def _bare(text: str, tools: Sequence[ToolSpec], number: int) -> tuple[ToolCall, ...]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    values = value if isinstance(value, list) else [value]
    calls = [
        _call(item, tools, f"call_{number + n}") for n, item in enumerate(values[:_CALLS_LIMIT])
    ]
    return tuple(call for call in calls if call) if values and all(calls) else ()


def _call(value: Any, tools: Sequence[ToolSpec], call_id: str) -> ToolCall | None:
    if isinstance(value, dict) and isinstance(inner := value.get("function"), dict):
        value = inner
    if not isinstance(value, dict):
        return None
    name = value.get("name", value.get("tool", value.get("function")))
    argument_values = [
        value[key] for key in ("arguments", "parameters", "args", "input") if key in value
    ]
    if not isinstance(name, str) or not find_tool(tools, name) or len(argument_values) > 1:
        return None
    arguments = argument_values[0] if argument_values else {}
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return parse_tool_call(call_id, name, raw)


def _broken(body: str, tools: Sequence[ToolSpec], call_id: str) -> ToolCall | None:
    """Return the call in an object that is not valid JSON, without arguments unless repairable."""
    name = _BROKEN_NAME.search(body)
    if name is None or not find_tool(tools, name[1]) or not _BROKEN_ARGUMENTS.search(body):
        return None
    repaired = parse_tool_call(call_id, "", body).arguments
    return _call(repaired, tools, call_id) or ToolCall(call_id, name[1], None, body)


def _begins_json(text: str) -> bool:
    """Return whether the text begins with a whole object."""
    try:
        json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return True
