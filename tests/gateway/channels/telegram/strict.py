"""Checks for messages that Telegram accepts unchanged.

They are stricter than its server, which corrects and drops entities silently.

https://core.telegram.org/bots/api#messageentity and the rules of its library,
https://github.com/tdlib/td/blob/master/td/telegram/MessageEntity.cpp
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from urllib.parse import urlsplit

from gateway.channels.telegram.outbound.rich_message import (
    FORMULA,
    plain_entities,
    rich_message,
)
from gateway.core.messages import Entity, OutboundPart
from tests.fakes.bot_rich import check_rich, rich_text
from tests.fakes.bot_text import Refusal

_WORDS = re.compile(r"\w+")
MAX_UNITS = 4096
MAX_ENTITIES = 100
MAX_URL = 2048
CODE = {"code", "pre"}
QUOTES = {"blockquote", "expandable_blockquote"}
STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler"}
KNOWN = CODE | QUOTES | STYLES | {"text_link"}


def problems(part: OutboundPart) -> list[str]:
    """Yield every part of the message that Telegram would refuse, correct or drop."""
    plain = replace(part, entities=tuple(plain_entities(part)))
    return [*_of_text(plain), *_of_entities(plain), *_of_nesting(plain.entities), *_of_rich(part)]


def _of_rich(part: OutboundPart) -> Iterator[str]:
    """Yield why a server would refuse the part as a rich message, and words that it lacks."""
    if (rich := rich_message(part)) is None:
        return
    try:
        shown = rich_text(check_rich(rich))
    except Refusal as refusal:
        yield refusal.description
        return
    formulas = [covered_text(part, e) for e in part.entities if e.type == FORMULA]
    missing = set(_WORDS.findall(part.text)) - set(_WORDS.findall(" ".join([shown, *formulas])))
    if missing:
        yield f"not in the rich message: {missing}"


def covered_text(part: OutboundPart, entity: Entity) -> str:
    raw = part.text.encode("utf-16-le")
    return raw[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")


def _of_text(part: OutboundPart) -> Iterator[str]:
    text = part.text
    try:
        units = len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        yield "a lone surrogate"
        return
    if not text.strip():
        yield "blank"
    if units > MAX_UNITS:
        yield f"{units} units"
    if any(ord(char) < 32 and char not in "\n\t" for char in text):
        yield "a control character"
    if text != text.rstrip():
        yield "ends with blanks"
    begins_with_code = any(e.type == "pre" and e.offset == 0 for e in part.entities)
    if text != text.lstrip() and not begins_with_code:
        yield "begins with blanks"


def _of_entities(part: OutboundPart) -> Iterator[str]:
    raw = part.text.encode("utf-16-le", "surrogatepass")
    if len(part.entities) > MAX_ENTITIES:
        yield f"{len(part.entities)} entities"
    for entity in part.entities:
        first, last = entity.offset, entity.offset + entity.length
        if entity.type not in KNOWN:
            yield f"unknown type {entity.type}"
        if entity.length <= 0 or first < 0 or last * 2 > len(raw):
            yield f"out of bounds: {entity}"
            continue
        if any(0 < at * 2 < len(raw) and 0xDC <= raw[at * 2 + 1] <= 0xDF for at in (first, last)):
            yield f"splits a pair: {entity}"
            continue
        text = raw[first * 2 : last * 2].decode("utf-16-le")
        # Code keeps its indentation, and so does a quotation that starts with code.
        begins = any(e.type == "pre" and e.offset == first for e in part.entities)
        trimmed = text.rstrip() if begins else text.strip()
        if not trimmed.strip() or text != trimmed:
            yield f"not trimmed: {entity.type} {text!r}"
        yield from _of_extra(entity)


def _of_extra(entity: Entity) -> Iterator[str]:
    required_fields = {"text_link": {"url"}, "pre": {"language"}}.get(entity.type, set())
    if set(entity.extra) - required_fields:
        yield f"too much: {entity}"
    language = entity.extra.get("language")
    if language is not None and (not language or len(language.split()) != 1):
        yield f"language {language!r}"
    if entity.type == "text_link":
        url = str(entity.extra.get("url", ""))
        results = urlsplit(url)
        host = results.hostname or ""
        if len(url) > MAX_URL or any(char.isspace() for char in url):
            yield f"address {url!r:.80}"
        elif results.scheme.lower() in ("http", "https", "ftp"):
            if "." not in host and ":" not in host:
                yield f"an address without a domain: {url!r:.80}"
        elif results.scheme.lower() not in ("tg", "ton", "tonsite"):
            yield f"an address that nothing opens: {url!r:.80}"


def _of_nesting(entities: tuple[Entity, ...]) -> Iterator[str]:
    for result, other in combinations(entities, 2):
        outer, inner = sorted((result, other), key=lambda e: (e.offset, -e.length))
        end = outer.offset + outer.length
        if inner.offset >= end:
            continue
        if inner.offset + inner.length > end:
            yield f"crossing: {outer} {inner}"
        kinds = {outer.type, inner.type}
        same_place = (outer.offset, outer.length) == (inner.offset, inner.length)
        allowed = kinds & QUOTES and (outer.type in QUOTES or same_place)
        if kinds & CODE and not (allowed and len(kinds) == 2):
            yield f"code with others: {outer} {inner}"
        if outer.type == inner.type or kinds <= QUOTES:
            yield f"nested in itself: {outer} {inner}"
