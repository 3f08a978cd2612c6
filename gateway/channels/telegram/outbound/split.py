"""Splitting of rendered text into messages that Telegram accepts."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.channels.telegram.outbound.rich_message import RICH_KINDS
from gateway.channels.telegram.utf16 import breaks_at, is_blank, offsets
from gateway.core.messages import Entity, OutboundPart

MAX_UNITS = 4096
# Telegram drops further entities, and with them a part of the formatting.
MAX_ENTITIES = 100
_BLOCK = "pre"
# A message may be half empty to end at a paragraph, but only slightly shorter to end at a word.
_SEAMS = (
    (re.compile(r"\n[^\S\n]*\n\s*"), 0.5),
    (re.compile(r"\n"), 0.4),
    (re.compile(r"[.!?…][\"')\]»”’]*\s+|[。！？；]"), 0.5),
    (re.compile(r"\s+|[、，]"), 0.0),
)


def split(
    text: str, entities: Sequence[Entity] = (), limit_units: int = MAX_UNITS
) -> tuple[OutboundPart, ...]:
    """Split text into consecutive parts; return none for a blank text.

    Parts have at most `limit_units` and `MAX_ENTITIES`. Only whitespace at the cuts is dropped. A
    code block that fits in one part is not split; a longer block is cut between lines, and every
    part of it is a block with its language.
    """
    return tuple(_Cutter(text, entities, limit_units).parts())


def first_part(text: str, entities: Sequence[Entity], limit_units: int) -> OutboundPart | None:
    """Return the first part of `split`."""
    return next(_Cutter(text, entities, limit_units).parts(), None)


class _Cutter:
    def __init__(self, text: str, entities: Sequence[Entity], limit_units: int) -> None:
        self._text = text
        self._at = offsets(text)
        self._limit = limit_units
        self._entities = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
        self._blocks = [
            (self._index(entity.offset), self._index(entity.offset + entity.length))
            for entity in self._entities
            if entity.type == _BLOCK
        ]

    def parts(self) -> Iterator[OutboundPart]:
        start = self._skip_blank(0)
        while start < len(self._text):
            end = self._end_of_part(start)
            stop = start + len(self._text[start:end].rstrip())
            if not is_blank(self._text[start:stop]):
                yield self._part(start, stop)
            start = self._skip_blank(end)

    def _part(self, start: int, stop: int) -> OutboundPart:
        first, last = self._at[start], self._at[stop]
        clipped = []
        for entity in self._entities:
            if entity.offset >= last:
                break
            begin = max(entity.offset, first)
            end = min(entity.offset + entity.length, last)
            if entity.type in RICH_KINDS:
                # Half of a row or formula is only text.
                if (begin, end) == (entity.offset, entity.offset + entity.length):
                    clipped.append(replace(entity, offset=begin - first))
                continue
            if begin < end and entity.type != _BLOCK:
                begin, end = self._trim(begin, end)
            if begin < end:
                clipped.append(replace(entity, offset=begin - first, length=end - begin))
        return OutboundPart(self._text[start:stop], tuple(clipped))

    def _trim(self, begin: int, end: int) -> tuple[int, int]:
        """Trim whitespace at the ends of formatting that was cut, as Telegram requires."""
        start, stop = self._index(begin), self._index(end)
        while start < stop and self._text[start].isspace() and not self._is_code(start):
            start += 1
        while start < stop and self._text[stop - 1].isspace():
            stop -= 1
        return self._at[start], self._at[stop]

    def _is_code(self, index: int) -> bool:
        return any(start <= index < end for start, end in self._blocks)

    def _skip_blank(self, start: int) -> int:
        """Return the index of the next visible character, or of its code line's indentation."""
        text = self._text
        first = start
        while first < len(text) and text[first].isspace():
            first += 1
        line = max(text.rfind("\n", start, first) + 1, start)
        for block_start, block_end in self._blocks:
            if block_start <= first < block_end:
                return max(line, block_start, start)
        return first

    def _end_of_part(self, start: int) -> int:
        room = min(self._at[start] + self._limit, self._entity_limit(self._at[start]))
        if self._at[-1] <= room:
            return len(self._text)
        reach = self._index(room)
        for block_start, block_end in self._blocks:
            if block_start < reach < block_end:
                return self._cut_at_block(start, reach, (block_start, block_end))
        return self._cut_in_prose(start, reach)

    def _entity_limit(self, first: int) -> int:
        """Return the unit before which a part from `first` must end to respect the entity limit."""
        count = 0
        for entity in self._entities:
            if entity.type not in RICH_KINDS and entity.offset + entity.length > first:
                count += 1
            if count > MAX_ENTITIES:
                return max(entity.offset, first + 1)
        return self._at[-1]

    def _cut_at_block(self, start: int, reach: int, block: tuple[int, int]) -> int:
        """Cut near a code block: before the block, or between its lines."""
        block_start, block_end = block
        fits = self._at[block_end] - self._at[block_start] <= self._limit
        if fits and block_start > start:
            return block_start
        line = self._text.rfind("\n", max(start, block_start), reach)
        if line > max(start, block_start) and not is_blank(self._text[start:line]):
            return line
        if block_start > start and not is_blank(self._text[start:block_start]):
            return block_start
        return self._cut_anywhere(start, reach)

    def _cut_in_prose(self, start: int, reach: int) -> int:
        for pattern, least_filled in _SEAMS:
            least = start + max(1, int((reach - start) * least_filled))
            seam = self._last_seam(pattern, least, reach)
            if seam is not None:
                return seam
        return self._cut_anywhere(start, reach)

    def _last_seam(self, pattern: re.Pattern[str], least: int, reach: int) -> int | None:
        ends = [match.end() for match in pattern.finditer(self._text, least, reach)]
        return next((end for end in reversed(ends) if self._may_cut(end)), None)

    def _may_cut(self, index: int) -> bool:
        return breaks_at(self._text, index) and not any(
            block_start < index < block_end for block_start, block_end in self._blocks
        )

    def _cut_anywhere(self, start: int, reach: int) -> int:
        """Cut between two visible characters or, if one fills a part, inside it."""
        for index in range(reach, start, -1):
            if breaks_at(self._text, index):
                return index
        return reach

    def _index(self, unit: int) -> int:
        """Return the index of the last character that begins at or before this unit."""
        return bisect_right(self._at, unit) - 1
