"""Markdown for the parts of a received text that its plain characters do not show.

https://core.telegram.org/bots/api#messageentity
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.channels.telegram.utf16 import offsets

_MAX_URL_CHARS = 2_000
_SHOWN = frozenset({"text_link", "code", "pre"})
_TICKS = re.compile(r"`+")
_NEEDS_BRACKETS = re.compile(r"[ ()<>]")


def mark_links_and_code(
    text: str,
    entities: Iterable[Mapping[str, Any]],
    cuts: Iterable[tuple[int, int]] = (),
    *,
    start: int = 0,
    with_code: bool = True,
) -> str:
    """Return the text with its links and code as Markdown, without the ranges in `cuts`.

    Entities before the character `start` are ignored. Entities outside of the text, or without
    text, are left out.
    """
    at = offsets(text)
    # Edits as (start, order, end, replacement): closing marks come before opening ones.
    edits = [(first, 1, end, "") for first, end in cuts]
    for number, entity in enumerate(entities):
        if entity.get("type") not in _SHOWN:
            continue
        begin, units = int(entity["offset"]), int(entity["length"])
        first, last = bisect_left(at, begin), bisect_left(at, begin + units)
        if first < start or first >= last or last >= len(at):
            continue
        marks = _marks(entity, text[first:last], text, (first, last), with_code=with_code)
        if marks is not None:
            edits.append((first, 2 + number, first, marks[0]))
            edits.append((last, -number, last, marks[1]))
    pieces, position = [], 0
    for first, _, end, replacement in sorted(edits):
        pieces += [text[position:first], replacement]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def link(label: str, url: str) -> str:
    """Return a Markdown link; only the label if it is the address."""
    marks = _link_marks(label, url)
    return f"{marks[0]}{label}{marks[1]}" if marks else label


def inline_code(code: str) -> str:
    """Return Markdown code, in more backticks than the code contains."""
    before, after = _code_marks(code)
    return f"{before}{code}{after}"


def code_block(code: str, language: str = "") -> str:
    ticks = _fence(code, 3)
    return f"{ticks}{language}\n{code}\n{ticks}"


def _marks(
    entity: Mapping[str, Any], label: str, text: str, span: tuple[int, int], *, with_code: bool
) -> tuple[str, str] | None:
    """Return the Markdown before and after an entity; None if it needs none."""
    kind = entity.get("type")
    if kind == "text_link":
        return _link_marks(label, str(entity["url"]))
    if kind == "code" and with_code:
        return _code_marks(label)
    if kind == "pre" and with_code:
        ticks, (first, last) = _fence(label, 3), span
        before = "" if first == 0 or text[first - 1] == "\n" else "\n"
        after = "" if last == len(text) or text[last] == "\n" else "\n"
        language = " ".join(str(entity.get("language") or "").split())
        return f"{before}{ticks}{language}\n", f"\n{ticks}{after}"
    return None


def _link_marks(label: str, url: str) -> tuple[str, str] | None:
    url = " ".join(url.split())[:_MAX_URL_CHARS]
    if not url or url.rstrip("/") in (label, label.rstrip("/")):
        return None
    target = f"<{url}>" if _NEEDS_BRACKETS.search(url) else url
    return "[", f"]({target})"


def _code_marks(code: str) -> tuple[str, str]:
    ticks = _fence(code, 1)
    room = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{ticks}{room}", f"{room}{ticks}"


def _fence(code: str, least: int) -> str:
    longest = max((len(ticks) for ticks in _TICKS.findall(code)), default=0)
    return "`" * max(least, longest + 1)
