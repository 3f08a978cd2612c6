"""Shorter results for repeated reads of a file that is still in the model's context.

The earlier content is taken only from the messages that were sent. Content that was dropped,
summarized or shortened is therefore shown again.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.text.text_document import diff
from agent.types import Message, ToolCall, ToolResult

# Shorter results cost less than a note about them.
_MIN_CHARS = 400
# Longest useful diff, as a share of the text.
_DIFF_PART = 0.5
_MAX_LINES = 3_000
_LINE = re.compile(r" *(\d+)\t(.*)", re.DOTALL)
_OF_LINES = re.compile(r": lines \d+ to \d+ of (\d+)$")

# Returns the normalized path that a call reads, or None for a call of another tool.
PathOf = Callable[[ToolCall], str | None]


@frozen
class Reading:
    """Lines of a file by number, and the text after them."""

    lines: Mapping[int, str]
    rest: str


@frozen
class _ShownFile:
    """Content of one file as shown in a request, with the latest version of each line.

    `number` is the number of the newest message that shows any line. `is_repeated` means that the
    model was just informed about the unchanged content.
    """

    lines: Mapping[int, str]
    number: int
    is_repeated: bool


def shorten_reading(
    call: ToolCall, result: ToolResult, messages: Sequence[Message], first: int, path_of: PathOf
) -> ToolResult:
    """Return the result of `read_file` for a model that has `messages`, numbered from `first`.

    The result is complete, a note that nothing has changed, or a diff.
    """
    path = path_of(call)
    text = result.for_model
    if path is None or len(text) < _MIN_CHARS:
        return result
    reading = parse_reading(text)
    earlier = _find_shown(path, messages, first, path_of) if reading.lines else None
    if earlier is None or not earlier.lines:
        return result
    if _is_unchanged(reading, earlier, _count_of_lines(result)):
        if earlier.is_repeated:
            # The model repeats the call at once, so it needs the content.
            return result
        words = render_prompt("unchanged", number=earlier.number)
    else:
        words = _changes(path, reading, earlier, len(text))
        if not words:
            return result
    return replace(
        result,
        for_model=f"{words}\n{reading.rest}".rstrip("\n"),
        for_user=result.for_user if result.for_user is not None else text,
    )


def parse_reading(text: str) -> Reading:
    """Parse the text of a `read_file` result."""
    lines: dict[int, str] = {}
    parts = text.split("\n")
    for n, part in enumerate(parts):
        match = _LINE.fullmatch(part)
        if match is None or (lines and int(match[1]) != next(reversed(lines)) + 1):
            return Reading(lines, "\n".join(parts[n:]))
        lines[int(match[1])] = match[2]
    return Reading(lines, "")


def _find_shown(
    path: str, messages: Sequence[Message], first: int, path_of: PathOf
) -> _ShownFile | None:
    calls: dict[str, ToolCall] = {}
    lines: dict[int, str] = {}
    number, is_repeated = 0, False
    unchanged = load_prompt("unchanged").partition("$")[0]
    for n, message in enumerate(messages, first):
        if message.role == "assistant":
            # Ids are unique within a reply only: some vendors reuse them in the next one.
            calls = {call.id: call for call in message.tool_calls}
            is_repeated = False
        if message.role != "tool" or message.is_error:
            continue
        call = calls.get(message.tool_call_id or "")
        if call is None or path_of(call) != path:
            continue
        text = message.text
        is_repeated |= text.startswith(unchanged)
        if text_lines := parse_reading(text).lines:
            lines.update(text_lines)
            number = n
    return _ShownFile(lines, number, is_repeated) if lines else None


def _is_unchanged(reading: Reading, earlier: _ShownFile, count: int | None) -> bool:
    """Return whether each line was last shown as it is now, and no shown line was deleted."""
    if count is not None and max(earlier.lines) > count:
        return False
    return all(earlier.lines.get(number) == line for number, line in reading.lines.items())


def _changes(path: str, reading: Reading, earlier: _ShownFile, chars: int) -> str:
    """Return the diff if the whole file was shown and the diff is clearly shorter, else ''."""
    is_whole = 1 in reading.lines and len(earlier.lines) == max(earlier.lines)
    if not is_whole or max(len(reading.lines), len(earlier.lines)) > _MAX_LINES:
        return ""
    before = [earlier.lines[number] for number in sorted(earlier.lines)]
    difference = diff(path, "\n".join(before) + "\n", "\n".join(reading.lines.values()) + "\n")
    if not difference or len(difference) > chars * _DIFF_PART:
        return ""
    return render_prompt("changed_since", number=earlier.number, diff=difference)


def _count_of_lines(result: ToolResult) -> int | None:
    match = _OF_LINES.search(result.for_user or "")
    return int(match[1]) if match is not None else None
