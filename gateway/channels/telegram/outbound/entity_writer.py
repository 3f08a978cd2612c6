"""Writer of text with formatting entities, nested by Telegram's rules.

Rules for nesting: https://core.telegram.org/bots/api#messageentity
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gateway.channels.telegram.utf16 import offsets
from gateway.core.messages import Entity

# At deeper nesting, only the marks of first lines are shown.
_DEPTH = 8
# Deeper items have no separate mark, because the cost of a line's prefix must be bounded.
_MARGINS = 64
# Formatting that cannot contain other formatting, and is only allowed within quotations.
_CODE = ("code", "pre")
# Indivisible formatting: it cannot contain code or another entity of these kinds.
_WHOLE = ("text_link",)
_QUOTE = "blockquote"
# Longer quotations are collapsed.
_FOLDED_CHARS = 600


@dataclass(slots=True)
class _Open:
    """Open formatting; `start` is None until text is written in it."""

    kind: str
    extra: dict[str, Any]
    start: int | None = None


@dataclass(slots=True)
class _Margin:
    """Line prefixes of a list item or quotation; the first line has its own."""

    rest: str
    first: str | None = None


@dataclass(slots=True)
class EntityWriter:
    """Append-only writer; positions count characters until `finish`."""

    length: int = 0
    _pieces: list[str] = field(default_factory=list)
    _newlines: int = 0
    _pending_newlines: int = 0
    _open: list[_Open] = field(default_factory=list)
    _spans: list[tuple[str, int, int, dict[str, Any]]] = field(default_factory=list)
    _margins: list[_Margin] = field(default_factory=list)
    _repeated: Counter[str] = field(default_factory=Counter)
    _deeper: int = 0

    def block(self, newlines: int) -> None:
        """Start the next text on a new line, after at least this many newlines."""
        self._pending_newlines = max(self._pending_newlines, newlines)

    def write(self, text: str) -> None:
        """Write text with the open formatting; each line starts with the margin."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self._put("\n")
            if line:
                self._settle(with_margin=True)
                self._start()
                self._put(line)

    def code(self, text: str) -> None:
        """Write inline code, which is plain text within a link, and interrupts other formatting."""
        if not text.strip() or any(mark.kind in _WHOLE for mark in self._open):
            self.write(text)
            return
        self._settle(with_margin=True)
        self._interrupt()
        start = self.length
        self._put(text.replace("\n", " "))
        self._spans.append(("code", start, self.length, {}))

    def pre(self, text: str, language: str = "") -> int:
        """Write a block of code, unchanged, and return its position."""
        self._settle(with_margin=any(margin.first for margin in self._margins))
        self._interrupt()
        start = self.length
        self._put(text)
        self._spans.append(("pre", start, self.length, {"language": language} if language else {}))
        return start

    def open(self, kind: str, **extra: Any) -> None:
        """Open formatting; nested repetitions of the same kind are only counted."""
        if self.is_open(kind):
            self._repeated[kind] += 1
        else:
            self._open.append(_Open(kind, extra))

    def close(self, kind: str) -> None:
        """End the innermost formatting of this kind; inner formatting continues after it."""
        if self._repeated[kind]:
            self._repeated[kind] -= 1
            return
        for index in reversed(range(len(self._open))):
            if self._open[index].kind == kind:
                self._cut(index)
                del self._open[index]
                return

    def cover(self, kind: str, start: int, end: int | None = None, **extra: Any) -> None:
        """Add an entity over text that is already written, without spaces at its ends."""
        self._spans.append((kind, start, self.length if end is None else end, extra))

    @property
    def has_margin(self) -> bool:
        """True within a list or a nested quotation."""
        return bool(self._margins)

    def is_open(self, kind: str) -> bool:
        return any(mark.kind == kind for mark in self._open)

    def indent(self, rest: str, first: str | None = None) -> None:
        """Start lines with `rest`, and the first with `first`, until `outdent`."""
        if len(self._margins) < _MARGINS:
            self._margins.append(_Margin(rest, first))
        else:
            self._deeper += 1

    def remark(self, first: str) -> None:
        """Replace the mark of the item whose text comes next."""
        if self._margins and self._margins[-1].first is not None:
            self._margins[-1].first = first

    def outdent(self) -> None:
        """End the margin; the mark of an item without text is still written."""
        if self._deeper:
            self._deeper -= 1
            return
        if self._margins[-1].first is not None:
            self._settle(with_margin=True)
        self._margins.pop()

    def since(self, start: int) -> str:
        """Return the text written since this position."""
        pieces: list[str] = []
        missing = self.length - start
        for piece in reversed(self._pieces):
            if missing <= 0:
                break
            pieces.append(piece)
            missing -= len(piece)
        return "".join(reversed(pieces))

    def finish(self) -> tuple[str, list[Entity]]:
        """Return the text and its entities, with trimmed ends, in order of position."""
        while self._open:
            self.close(self._open[-1].kind)
        text = "".join(self._pieces)
        at = offsets(text)
        entities = []
        # Leading whitespace of a code block belongs to it and to the surrounding quotation.
        blocks = {start for kind, start, _, _ in self._spans if kind == "pre"}
        for kind, start, end, extra in self._spans:
            if kind not in _CODE:
                while start < end and text[start].isspace() and start not in blocks:
                    start += 1
            while start < end and text[end - 1].isspace():
                end -= 1
            if kind == _QUOTE and end - start > _FOLDED_CHARS:
                kind = "expandable_blockquote"
            if start < end:
                entities.append(Entity(kind, at[start], at[end] - at[start], extra))
        return text, sorted(entities, key=lambda entity: (entity.offset, -entity.length))

    def _put(self, text: str) -> None:
        self._pieces.append(text)
        self.length += len(text)
        tail = len(text) - len(text.rstrip("\n"))
        self._newlines = tail + (self._newlines if tail == len(text) else 0)

    def _settle(self, *, with_margin: bool) -> None:
        """Write pending newlines and, at the start of a line, the margin."""
        newlines, self._pending_newlines = self._pending_newlines, 0
        if self.length and newlines > self._newlines:
            self._put("\n" * (newlines - self._newlines))
        if with_margin and (self._newlines or not self.length):
            for depth, margin in enumerate(self._margins):
                before = margin.first if margin.first is not None else margin.rest
                if margin.first is not None or depth < _DEPTH:
                    self._put(before)
                margin.first = None

    def _start(self) -> None:
        for mark in self._open:
            if mark.start is None:
                mark.start = self.length

    def _interrupt(self) -> None:
        """End all formatting except quotations; it continues with the next text."""
        for index, mark in enumerate(self._open):
            if mark.kind == _QUOTE:
                if mark.start is None:
                    mark.start = self.length
            else:
                self._end(index)

    def _cut(self, index: int) -> None:
        for inner in range(index, len(self._open)):
            self._end(inner)

    def _end(self, index: int) -> None:
        mark = self._open[index]
        if mark.start is not None and mark.start < self.length:
            self._spans.append((mark.kind, mark.start, self.length, mark.extra))
        mark.start = None
