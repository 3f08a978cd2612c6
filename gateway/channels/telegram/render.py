"""Markdown to Telegram messages: text with entities, never a `parse_mode`.

https://core.telegram.org/bots/api#messageentity
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.language import later, t
from agent.signals import in_words
from gateway.channels.telegram.markup import clean, keep_tags, may_hold_formulas
from gateway.channels.telegram.split import LIMIT_UNITS, split
from gateway.channels.telegram.utf16 import units
from gateway.messages import Entity, OutboundPart

# Its translations are shorter.
REPEAT_NOTE = later("↻ This may be a repeat: the connection broke while sending.\n")
EMPTY_ANSWER = later("The answer was empty. Please ask again, perhaps in other words.")

# A part leaves room for the note that a later retry may have to put in front.
_PART_UNITS = LIMIT_UNITS - units(REPEAT_NOTE)
# As much source as can show up in one message; the rest of a long answer is not parsed again
# and again while it streams.
_PREVIEW_CHARS = 3 * LIMIT_UNITS
_LOOSE_END = re.compile(r"(?:!?\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}|[*_~|]{1,3}|(?<!\S)`{1,3})\Z")
_LINKS = re.compile(r"(?:https?|tg|mailto|tel|ftp):", re.IGNORECASE)
_EXTRAS = ("url", "language", "custom_emoji_id")
# What a parser raises when it meets input that its authors did not think of.
_PARSER_FAILURES = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError,
)  # fmt: skip


def render(markdown: str) -> tuple[OutboundPart, ...]:
    """What Telegram shows for an answer: at least one part, none blank or too long. Never fails."""
    text, entities = _convert(clean(in_words(markdown)))
    return split(text, entities, _PART_UNITS) or (OutboundPart(t(EMPTY_ANSWER)),)


def render_preview(markdown: str) -> OutboundPart | None:
    """The start of an answer that is still growing, as one message; None while it is blank.

    Marks that were opened at the very end and a link that is half there are left out.
    """
    begun = in_words(markdown[:_PREVIEW_CHARS], growing=True)
    source = _LOOSE_END.sub(r"\1", clean(begun))
    text, entities = _convert(source)
    return next(iter(split(text, entities, _PART_UNITS)), None)


def mark_repeat(part: OutboundPart) -> OutboundPart:
    """The part with a first line that says that it may have arrived before."""
    note = t(REPEAT_NOTE)
    if units(note) + units(part.text) > LIMIT_UNITS:
        note = REPEAT_NOTE[0] + "\n"
    shift = units(note)
    moved = tuple(replace(entity, offset=entity.offset + shift) for entity in part.entities)
    return replace(part, text=note + part.text, entities=moved)


def _convert(markdown: str) -> tuple[str, Sequence[Entity]]:
    import telegramify_markdown

    try:
        source = keep_tags(markdown)
        text, found = telegramify_markdown.convert(
            source, latex_escape=may_hold_formulas(source), config=_symbols()
        )
        entities = [_entity(item.to_dict()) for item in found]
    except _PARSER_FAILURES:
        return markdown, ()
    size = units(text)
    return text, [
        entity
        for entity in entities
        if 0 <= entity.offset < entity.offset + entity.length <= size and _is_shown(entity)
    ]


def _symbols() -> Any:
    """Headings are bold without a pictogram in front."""
    from telegramify_markdown import RenderConfig

    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = ""
    symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    return config


def _entity(item: dict[str, object]) -> Entity:
    extra = {key: item[key] for key in _EXTRAS if item.get(key)}
    return Entity(str(item["type"]), int(str(item["offset"])), int(str(item["length"])), extra)


def _is_shown(entity: Entity) -> bool:
    """Telegram opens absolute addresses only; another link stays as its text."""
    return entity.type != "text_link" or bool(_LINKS.match(str(entity.extra.get("url", ""))))
