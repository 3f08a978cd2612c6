"""Rendering of markdown to Telegram messages: text with entities, never a `parse_mode`.

https://core.telegram.org/bots/api#messageentity
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from agent.i18n import mark_for_translation, plural, t
from agent.text.visible import escape_invisible
from agent.turn.completion_signal import humanize_signals
from gateway.channels.telegram.outbound.markdown_prepare import parse_markdown, sanitize
from gateway.channels.telegram.outbound.rich_message import RICH_KINDS, rich_text
from gateway.channels.telegram.outbound.split import MAX_ENTITIES, MAX_UNITS, first_part, split
from gateway.channels.telegram.utf16 import offsets, units
from gateway.core.messages import Entity, OutboundFile, OutboundPart

# Length of the longest note, in all languages.
REPEAT_NOTE = mark_for_translation("↻ Possible duplicate: the connection was lost while sending.\n")
PREVIEW_NOTE = mark_for_translation("↻ Full answer; an incomplete version may be above.\n")
PAGE_NOTE = mark_for_translation("↻ An incomplete version of this part may be above.\n")
STRAYED_NOTE = mark_for_translation("↪ From a closed or deleted topic:\n")
EMPTY_ANSWER = mark_for_translation("The answer was empty. Please ask again or rephrase.")

# A part leaves room for the note that a later retry may prepend.
_PART_UNITS = MAX_UNITS - units(REPEAT_NOTE)
# Limit of source per message; the rest of a long answer is not parsed repeatedly while it streams.
_PREVIEW_CHARS = 3 * MAX_UNITS
# Shown below a message that has no room for the rest of the text.
_MORE = "…"
_LOOSE_END = re.compile(
    r"(?:!?\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}|(?<!\S)(?:[*_~|]{1,3}|`{1,3})|!?\[)\Z"
)
_HALF_MARK = re.compile(r"(?<!\*)\*\Z")
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*?)[ \t#]*\Z")
_MAX_HEADING_CHARS = 80
# With the lines above and notes in front, a caption stays below Telegram's 1,024.
_OUTLINE_UNITS = 700
# Lines that begin with letters and contain no possible mark need no parser.
_SAID = r"[^\W\d_](?:[^\n`*_~|<>&\\\[\]$#!]*[^\s`*_~|<>&\\\[\]$#!])?"
_PLAIN = re.compile(rf"{_SAID}(?:\n{{1,2}}{_SAID})*")
# Exceptions of a parser on unexpected input.
_PARSER_FAILURES = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError,
)  # fmt: skip


def render(markdown: str) -> tuple[OutboundPart, ...]:
    """Render an answer: at least one part, none blank or too long. Never fails."""
    text, entities = _convert(sanitize(humanize_signals(markdown)))
    return split(text, entities, _PART_UNITS) or (OutboundPart(t(EMPTY_ANSWER)),)


def as_file_if_long(
    markdown: str, parts: tuple[OutboundPart, ...], most: int
) -> tuple[OutboundPart, ...]:
    """Return an answer of more than `most` messages as its beginning and a file.

    If `most` is 0, any number of messages is allowed.
    """
    if not 0 < most < len(parts):
        return parts
    count = text_messages(most)
    text = escape_invisible(sanitize(humanize_signals(markdown)))
    file = OutboundFile("answer.md", text=text, size_bytes=len(text.encode()))
    caption = plural(
        len(parts) - count,
        "The answer continues in one more message. This file has the full text.",
        "The answer continues in {n} more messages. This file has the full text.",
    )
    return *parts[:count], OutboundPart("\n".join([caption, *_outline(text)]), files=(file,))


def text_messages(most: int) -> int:
    """Return the number of text messages of an answer that becomes a file.

    The file is the last of `most` messages, after the text. Returns 0 if no answer becomes a file.
    """
    return max(1, most - 1) if most else 0


def _outline(markdown: str) -> list[str]:
    """Return the headings of a long answer, as lines below its file."""
    headings: list[str] = []
    room, fenced = _OUTLINE_UNITS, False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            continue
        text = f"• {_convert(heading[1])[0].strip()[:_MAX_HEADING_CHARS]}"
        room -= units(text) + 1
        if room < 0:
            return [*headings, _MORE]
        headings.append(text)
    return headings if len(headings) > 1 else []


def render_preview(markdown: str, line: str = "") -> OutboundPart | None:
    """Render the start of an unfinished answer as one message, with `line` below.

    Returns None while it is blank.
    """
    pages = render_pages(markdown, line, 1)
    return pages[0] if pages else None


def render_line(markdown: str) -> Any:
    """Render a short text, such as a status, as a RichText."""
    return rich_text(*_convert(sanitize(markdown)))


def render_pages(markdown: str, line: str, most: int) -> tuple[OutboundPart, ...]:
    """Render an unfinished answer as at most `most` messages, with `line` below the last.

    Returns none while it is blank. Marks opened at the very end and an incomplete link are omitted.
    """
    beginning = humanize_signals(markdown[: most * _PREVIEW_CHARS], growing=True)
    text, entities = _convert(_close_marks(sanitize(beginning)))
    parts = split(text, entities, _PART_UNITS)
    if not parts or not (line or len(parts) > most):
        return parts
    *full, last = parts[:most]
    return *full, _with_line(last, line)


def _with_line(part: OutboundPart, line: str) -> OutboundPart:
    """Return the part with the line below, shortened if needed."""
    below, formatted = _convert(sanitize(line) or _MORE)
    beginning = first_part(part.text, part.entities, _PART_UNITS - units(below) - 2)
    assert beginning is not None, "no part is blank"
    shift = units(beginning.text) + 2
    moved = tuple(replace(entity, offset=entity.offset + shift) for entity in formatted)
    entities, count = [], 0
    for entity in beginning.entities + moved:
        count += entity.type not in RICH_KINDS
        if count <= MAX_ENTITIES:
            entities.append(entity)
    return OutboundPart(f"{beginning.text}\n\n{below}", tuple(entities))


def _close_marks(markdown: str) -> str:
    """Remove marks opened at the very end, and close marks opened before."""
    source = _LOOSE_END.sub(r"\1", markdown)
    if len(_FENCE.findall(source)) % 2:
        return source
    last = source[source.rfind("\n\n") + 1 :]
    if last.count("`") % 2:
        return f"{source}`"
    if last.count("**") % 2:
        if source.endswith("**"):
            return source[:-2]
        # The first of the two closing stars may already be there.
        return _HALF_MARK.sub("", source).rstrip() + "**"
    return source


def mark_repeat(part: OutboundPart, *, preview: bool = False, number: int = 0) -> OutboundPart:
    """Return the part with a first line that warns of a possible duplicate.

    With `preview`, an unfinished version may have arrived; `number` is the number of earlier parts.
    """
    if not preview:
        return _with_note(part, t(REPEAT_NOTE))
    return _with_note(part, t(PAGE_NOTE if number else PREVIEW_NOTE))


def mark_topic_lost(part: OutboundPart) -> OutboundPart:
    """Return the part with a first line that names the topic it belongs to."""
    return _with_note(part, t(STRAYED_NOTE))


def _with_note(part: OutboundPart, note: str) -> OutboundPart:
    if units(note) + units(part.text) > MAX_UNITS:
        note = note[0] + "\n"
    if not part.text:
        # Below a file without a caption, the note is the only text.
        note = note.rstrip()
    shift = units(note)
    moved = tuple(replace(entity, offset=entity.offset + shift) for entity in part.entities)
    return replace(part, text=note + part.text, entities=moved)


def _convert(markdown: str) -> tuple[str, Sequence[Entity]]:
    if _PLAIN.fullmatch(markdown):
        return _with_nothing_hidden(markdown, ())
    from gateway.channels.telegram.outbound.markdown import MarkdownRenderer

    try:
        source, events = parse_markdown(markdown)
        walk = MarkdownRenderer(source)
        walk.events(events)
        return _with_nothing_hidden(*walk.finish())
    except _PARSER_FAILURES:
        return _with_nothing_hidden(markdown, ())


def _with_nothing_hidden(text: str, entities: Sequence[Entity]) -> tuple[str, Sequence[Entity]]:
    """Make invisible characters visible.

    This needs the parsed text, because `&#x200b;` is a plain word before parsing.
    """
    if escape_invisible(text) == text:
        return text, entities
    at = offsets(text)
    bounds = sorted({0, at[-1], *(n for e in entities for n in (e.offset, e.offset + e.length))})
    pieces, moved, length = [], {0: 0}, 0
    for start, end in pairwise(bounds):
        piece = escape_invisible(text[bisect_left(at, start) : bisect_left(at, end)])
        pieces.append(piece)
        length += units(piece)
        moved[end] = length
    return "".join(pieces), [
        replace(e, offset=moved[e.offset], length=moved[e.offset + e.length] - moved[e.offset])
        for e in entities
    ]
