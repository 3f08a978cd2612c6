"""Tables for a narrow screen: in columns if they fit, else row by row."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.channels.telegram.outbound.markdown_prepare import Events, name, parse

# Approximate fixed-width characters per line on a phone.
SCREEN_CELLS = 38
_ZWJ, _EMOJI = "\u200d", "\ufe0f"


@dataclass(slots=True)
class Table:
    """Table collected from the parser's events; the first row is the head."""

    alignments: Sequence[str]
    rows: list[list[Events]] = field(default_factory=list)
    has_links: bool = False

    def add(self, event: Any, span: dict[str, int], source: bytes) -> bool:
        """Add an event; return False at the end of the table."""
        match event:
            case {"Start": "TableHead" | "TableRow"}:
                self.rows.append([])
            case {"Start": "TableCell"}:
                self.rows[-1].append([])
            case {"End": "TableCell"}:
                self._cell_end = span["end"]
            case {"End": "TableRow"}:
                self._restore_cells(source[self._cell_end : span["end"]].decode(), span)
            case {"End": "Table"}:
                return False
            case {"End": "TableHead"}:
                pass
            case _:
                self.has_links = self.has_links or name(event) in ("Link", "Image")
                self.rows[-1][-1].append((event, span))
        return True

    def _restore_cells(self, rest: str, span: dict[str, int]) -> None:
        """Restore cells without a column in the head, which the parser drops."""
        for cell in filter(None, map(str.strip, rest.split("|"))):
            # Parsed, so that code stays code: Telegram links addresses in plain text.
            alone = Table(())
            _, *events = parse(f"| {cell} |\n|---|\n".encode())
            for event, _ in events:
                alone.add(event, span, b"")
            self.has_links = self.has_links or alone.has_links
            self.rows[-1] += alone.rows[0][:1] if alone.rows else [[({"Text": cell}, span)]]

    _cell_end: int = 0


def cells_of(text: str) -> int:
    """Return the approximate width in columns of a fixed-width font."""
    if text.isascii():
        return len(text)
    cells = 0
    before = ""
    for char in text:
        if before == _ZWJ or char in (_ZWJ, _EMOJI) or _is_tone(char):
            # Joined to the previous character; a character shown as an emoji is wide.
            cells += char == _EMOJI and unicodedata.east_asian_width(before) not in "WF"
        elif unicodedata.category(char) not in ("Mn", "Me", "Cf"):
            cells += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        before = char
    return cells


def columns(rows: Sequence[Sequence[str]], alignments: Sequence[str]) -> str | None:
    """Return the rows in columns, with the first row as header; None if they are too wide."""
    count = max(map(len, rows), default=0)
    full = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(cells_of(row[n]) for row in full) for n in range(count)]
    if sum(widths) + 3 * (count - 1) > SCREEN_CELLS:
        return None
    lines = [
        " │ ".join(
            _pad(cell, width, alignments[n] if n < len(alignments) else "")
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]
    lines.insert(1, "─┼─".join("─" * width for width in widths))
    return "\n".join(lines)


def _pad(text: str, width: int, alignment: str) -> str:
    room = width - cells_of(text)
    before = {"Right": room, "Center": room // 2}.get(alignment, 0)
    return " " * before + text + " " * (room - before)


def _is_tone(char: str) -> bool:
    return "\U0001f3fb" <= char <= "\U0001f3ff"
