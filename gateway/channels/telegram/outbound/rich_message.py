"""Rich messages of the Bot API, built from the text and entities of a part.

A part always has the text that an older server shows. Entities of the kinds in `RICH_KINDS` cover
the ranges of that text for which newer servers have something better.
https://core.telegram.org/bots/api#inputrichmessage
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.text.visible import escape_invisible, replace_lone_surrogates
from gateway.core.messages import Entity, OutboundPart

# A row of a table: `table` (number), `head` and `cells` (texts), `align` (of each column).
TABLE_ROW = "table_row"
# A formula: `latex`, `block` (whether it stands alone), `readable` (whether the text shows it).
FORMULA = "formula"
# A heading with its `size`, from 1 (largest) to 6.
HEADING = "heading"
RICH_KINDS = frozenset({TABLE_ROW, FORMULA, HEADING})

MAX_CHARS = 32_768
MAX_BLOCKS = 500
MAX_COLUMNS = 20
_TEXT_KINDS = ("bold", "italic", "underline", "strikethrough", "spoiler", "code")
_INLINE_KINDS = frozenset({*_TEXT_KINDS, "text_link", FORMULA})
_QUOTES = frozenset({"blockquote", "expandable_blockquote"})


def plain_entities(part: OutboundPart) -> list[Entity]:
    """Return the entities that every server knows."""
    return [entity for entity in part.entities if entity.type not in RICH_KINDS]


def rich_message(part: OutboundPart, thinking: Any = "") -> dict[str, Any] | None:
    """Return the part as an InputRichMessage; None if its text shows everything as well.

    Also None beyond the limits of rich messages. `thinking` is a RichText for a last block, which
    only drafts may have.
    """
    if not thinking and not any(map(_needs_blocks, part.entities)):
        return None
    blocks = _Builder(part.text, part.entities).blocks()
    if thinking:
        blocks.append({"type": "thinking", "text": thinking})
    if not 0 < _count(blocks) <= MAX_BLOCKS or _size(blocks) > MAX_CHARS:
        return None
    return {"blocks": blocks}


def rich_text(text: str, entities: Sequence[Entity]) -> Any:
    """Return formatted text as a RichText: a string, an object or a list of both."""
    builder = _Builder(text, entities)
    return builder.inline(0, builder.length)


def _needs_blocks(entity: Entity) -> bool:
    return entity.type == TABLE_ROW or (entity.type == FORMULA and not entity.extra.get("readable"))


class _Builder:
    """Builder of blocks for one text; positions count UTF-16 units.

    Entities are sorted, so that entities inside of another come after it.
    """

    def __init__(self, text: str, entities: Sequence[Entity]) -> None:
        self._units = replace_lone_surrogates(text).encode("utf-16-le")
        self._entities = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
        self._native_starts = [
            entity.offset
            for entity in self._entities
            if entity.type == TABLE_ROW or (entity.type == FORMULA and entity.extra["block"])
        ]
        self.length = len(self._units) // 2

    def blocks(self) -> list[dict[str, Any]]:
        return list(self._blocks(0, self.length, -1))

    def inline(self, start: int, end: int, outer: int = -1) -> Any:
        """Return the range as a RichText, with the formatting after the entity number `outer`."""
        pieces: list[Any] = []
        position = start
        for number, entity in enumerate(self._entities[outer + 1 :], outer + 1):
            first, last = max(entity.offset, start), min(entity.offset + entity.length, end)
            if entity.type in _INLINE_KINDS and position <= first < last:
                pieces += [self._text(position, first), self._formatted(number, first, last)]
                position = last
        pieces = [piece for piece in (*pieces, self._text(position, end)) if piece]
        return pieces[0] if len(pieces) == 1 else pieces or ""

    def _formatted(self, number: int, start: int, end: int) -> Any:
        entity = self._entities[number]
        if entity.type == FORMULA:
            return _formula(entity)
        inner = self.inline(start, end, number)
        if entity.type == "text_link":
            return {"type": "url", "text": inner, "url": entity.extra["url"]}
        return {"type": entity.type, "text": inner}

    def _blocks(self, start: int, end: int, outer: int) -> Iterator[dict[str, Any]]:
        position = start
        rows: list[Entity] = []
        for number, entity in enumerate(self._entities[outer + 1 :], outer + 1):
            first, last = entity.offset, entity.offset + entity.length
            if first < position or last > end or not self._is_block(entity):
                continue
            between = self._text(position, first)
            if rows and not (_is_next_row(entity, rows) and not between.strip()):
                yield _table(rows)
                rows = []
            if not rows:
                yield from self._paragraphs(position, first)
            if entity.type == TABLE_ROW:
                rows.append(entity)
            else:
                yield self._block(number, first, last)
            position = last
        if rows:
            yield _table(rows)
        yield from self._paragraphs(position, end)

    def _block(self, number: int, start: int, end: int) -> dict[str, Any]:
        entity = self._entities[number]
        if entity.type == HEADING:
            words = self.inline(start, end, number)
            if isinstance(words, dict) and words["type"] == "bold":
                words = words["text"]
            return {"type": "heading", "size": entity.extra["size"], "text": words}
        if entity.type == FORMULA:
            return _formula(entity)
        if entity.type == "pre":
            language = entity.extra.get("language")
            extra = {"language": language} if language else {}
            return {"type": "pre", "text": self._text(start, end), **extra}
        return {"type": "blockquote", "blocks": list(self._blocks(start, end, number))}

    def _is_block(self, entity: Entity) -> bool:
        if entity.type == "pre":
            # A narrow table or a formula is a block of code for older servers.
            end = entity.offset + entity.length
            return not any(entity.offset <= start < end for start in self._native_starts)
        is_formula = entity.type == FORMULA and entity.extra["block"]
        return is_formula or entity.type in (TABLE_ROW, HEADING, *_QUOTES)

    def _paragraphs(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        """Yield a paragraph for each piece of text between empty lines; none is blank."""
        position = start
        for piece in self._characters(start, end).split("\n\n"):
            length = len(piece.encode("utf-16-le")) // 2
            before = len(piece) - len(piece.lstrip("\n"))
            after = len(piece) - len(piece.rstrip())
            if piece.strip():
                words = self.inline(position + before, position + length - after)
                yield {"type": "paragraph", "text": words}
            position += length + 2

    def _text(self, start: int, end: int) -> str:
        return escape_invisible(self._characters(start, end))

    def _characters(self, start: int, end: int) -> str:
        return self._units[2 * start : 2 * end].decode("utf-16-le", "replace")


def _is_next_row(entity: Entity, rows: Sequence[Entity]) -> bool:
    return entity.type == TABLE_ROW and entity.extra["table"] == rows[-1].extra["table"]


def _formula(entity: Entity) -> dict[str, Any]:
    latex = escape_invisible(entity.extra["latex"])
    return {"type": "mathematical_expression", "expression": latex}


def _table(rows: Sequence[Entity]) -> dict[str, Any]:
    first = rows[0].extra
    align: list[str] = first["align"]
    lines = [(True, first["head"])] if any(first["head"]) else []
    lines += [(False, row.extra["cells"]) for row in rows if row.extra["cells"]]
    width = max(len(cells) for _, cells in lines)
    return {
        "type": "table",
        "is_bordered": True,
        "cells": [
            [
                _cell(
                    cells[column] if column < len(cells) else "",
                    align[column] if column < len(align) else "left",
                    is_header=is_header,
                )
                for column in range(width)
            ]
            for is_header, cells in lines
        ],
    }


def _cell(text: Any, align: str, *, is_header: bool) -> dict[str, Any]:
    cell: dict[str, Any] = {"align": align, "valign": "top"}
    if text:
        cell["text"] = text
    if is_header:
        cell["is_header"] = True
    return cell


def _count(blocks: Sequence[dict[str, Any]]) -> int:
    """Return the number of blocks, counting rows of tables and nested blocks."""
    return sum(
        1 + len(block.get("cells", ())) + _count(block.get("blocks", ())) for block in blocks
    )


def _size(value: Any) -> int:
    """Return the number of characters of all texts and formulas."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_size, value))
    keys = ("text", "expression", "blocks", "cells")
    return sum(_size(value[key]) for key in keys if key in value)
