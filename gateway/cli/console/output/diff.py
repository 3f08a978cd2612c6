"""Unified diffs in colour, with changes within a line highlighted."""

import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from agent.text.visible import escape_for_approval
from gateway.presenter.blocks import MAX_DIFF_LINES, more_lines

_STYLES = (
    ("+++", "bold"),
    ("---", "bold"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
# Minimum similarity of a changed line; below it, the line counts as replaced.
_ALIKE = 0.5
_MAX_LINE_CHARS = 500
_COMPARED = 400
# Column ranges of a line, counted from its diff marker.
_Spans = Sequence[tuple[int, int]]


def diff(text: str, limit_lines: int | None = MAX_DIFF_LINES) -> Text:
    """Return a unified diff in colour, in full if `limit_lines` is None."""
    lines = escape_for_approval(text).rstrip("\n").split("\n")
    output = Text()
    spans = _changed_spans(lines[: _COMPARED if limit_lines is None else limit_lines])
    for n, line in enumerate(lines[:limit_lines]):
        style = next((style for mark, style in _STYLES if line.startswith(mark)), "")
        row = Text(f"  {line}\n", style)
        for begin, end in spans.get(n, ()):
            row.stylize("reverse", begin + 2, end + 2)
        output.append_text(row)
    if limit_lines is not None and len(lines) > limit_lines:
        output.append(f"  {more_lines(len(lines) - limit_lines)}\n", "dim")
    output.right_crop(1)
    return output


def _changed_spans(lines: Sequence[str]) -> dict[int, _Spans]:
    """Return the ranges of each line that its counterpart does not contain."""
    spans: dict[int, _Spans] = {}
    for old, new in _pairs(lines):
        if max(len(lines[old]), len(lines[new])) <= _MAX_LINE_CHARS:
            spans[old], spans[new] = _compare(lines[old][1:], lines[new][1:])
    return spans


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of a removed line and the added line that replaces it."""
    n = 0
    while n < len(lines):
        removed_end = _run(lines, n, "-")
        added_end = _run(lines, removed_end, "+")
        if removed_end - n == added_end - removed_end:
            yield from zip(range(n, removed_end), range(removed_end, added_end), strict=True)
        n = max(added_end, n + 1)


def _run(lines: Sequence[str], begin: int, mark: str) -> int:
    end = begin
    while end < len(lines) and lines[end].startswith(mark) and not _is_head(lines, end):
        end += 1
    return end


def _is_head(lines: Sequence[str], n: int) -> bool:
    """Return whether a line is part of the two-line file header."""
    first = n if lines[n].startswith("--- ") else n - 1
    pair = lines[first : first + 2] if first >= 0 else []
    return len(pair) == 2 and pair[0].startswith("--- ") and pair[1].startswith("+++ ")


def _compare(old: str, new: str) -> tuple[_Spans, _Spans]:
    from difflib import SequenceMatcher

    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (), ()
    removed, added = [], []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            removed.append(_columns(before, a, b))
            added.append(_columns(after, c, d))
    return removed, added


def _columns(words: Sequence[str], begin: int, end: int) -> tuple[int, int]:
    start = 1 + sum(map(len, words[:begin]))
    return start, start + sum(map(len, words[begin:end]))
