"""Terminal screen with permanent output and a live tail below it.

Permanent output is printed once and scrolls away as in any program. Only the tail is repainted,
with a single write each time, so that nothing flickers and scrolling back stays useful. A terminal
without the required features (`live` is false) gets neither a tail nor control codes.
"""

import codecs
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.text import Text

from agent.text.display_width import line_breaks
from gateway.presenter.text import without_ansi

_SYNC_BEGIN, _SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
_MARGIN_ROWS = 2
_NARROWEST_CELL = 12
# ASCII replacements for terminals without UTF-8.
_ASCII = {
    **{"›": ">", "●": "*", "└": "|", "·": "-", "…": "...", "•": "*", "▌": "|", "✗": "x", "■": "#"},
    **{"↻": "~", "↪": ">", "✻": "*", "⏷": "v", "⏹": "#", "─": "-", "━": "-", "│": "|", "┃": "|"},
    **{"–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "→": "->", "█": "#", "░": "."},
    **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
}
_ENCODING_ERRORS = "kore.plain"


class Screen:
    def __init__(self, out: TextIO) -> None:
        if not speaks_utf8(out):
            replace_unencodable(out)
        self._out = out
        self.console = Console(file=out, highlight=False, markup=False, emoji=False)
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._compose: Callable[[], Sequence[str]] | None = None
        self._painted: list[str] = []

    @property
    def rows(self) -> int:
        """Maximum number of rows in the tail."""
        return max(3, self.console.height - _MARGIN_ROWS)

    def render(self, renderable: RenderableType, style: str | None = None) -> list[str]:
        """Return lines that are one column narrower than the terminal, so that none wraps."""
        width = max(20, self.console.width - 1)
        if isinstance(renderable, Text) and not renderable.no_wrap:
            renderable = break_lines(renderable, width)
        with self.console.capture() as captured:
            self.console.print(renderable, style=style, width=width)
        # Padding would wrap in a narrower window and be part of copied text.
        return [line.rstrip() for line in captured.get().rstrip("\n").split("\n")]

    def render_block(self, renderable: RenderableType, style: str | None = None) -> list[str]:
        """Return the lines without surrounding blank lines."""
        lines = self.render(renderable, style)
        filled = [n for n, line in enumerate(lines) if without_ansi(line).strip()]
        return lines[filled[0] : filled[-1] + 1] if filled else []

    def print(self, renderable: RenderableType = "", style: str | None = None) -> None:
        """Print permanent output above the tail."""
        self._write("\n".join(self.render(renderable, style)) + "\n")

    def print_block(self, renderable: RenderableType, style: str | None = None) -> None:
        """Print permanent output without surrounding blank lines."""
        if lines := self.render_block(renderable, style):
            self._write("\n".join(lines) + "\n")

    def print_lines(self, lines: Sequence[str]) -> None:
        """Print lines unchanged at any length, so that copied text equals the output."""
        self._write("\n".join(lines) + "\n")

    def begin_tail(self, compose: Callable[[], Sequence[str]]) -> None:
        """Show the lines of `compose` as the tail, updated with every write."""
        if self.live:
            self._compose = compose
            self.refresh()

    def write_control(self, sequence: str) -> None:
        """Write a sequence that prints nothing; a terminal that is not `live` gets none."""
        if self.live:
            self._out.write(sequence)
            self._out.flush()

    def refresh(self) -> None:
        """Repaint the tail; a tail that is too long loses its beginning."""
        if self._compose is not None:
            self._write("")

    @contextmanager
    def without_tail(self) -> Iterator[None]:
        """Remove the tail during the block, and paint it below what was written in the meantime."""
        compose, self._compose = self._compose, None
        self._write("")
        try:
            yield
        finally:
            self._compose = compose
            self.refresh()

    def end_tail(self) -> None:
        if self._compose is not None:
            self._compose = None
            self._write("")

    def _write(self, above: str) -> None:
        tail = list(self._compose())[-self.rows :] if self._compose is not None else []
        text = self._erase() + above + "\n".join(tail)
        self._painted = tail
        if text:
            self._out.write(f"{_SYNC_BEGIN}{text}{_SYNC_END}" if self.live else text)
            self._out.flush()

    def _erase(self) -> str:
        if not self._painted:
            return ""
        # A window that became narrower has wrapped the painted lines.
        columns = max(1, self.console.width)
        widths = (cell_len(without_ansi(line)) for line in self._painted)
        rows = sum(max(1, math.ceil(width / columns)) for width in widths)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J"


class Cell:
    """Table cell whose text is broken with `break_lines` at the column width."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield break_lines(self.text, options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widest = Measurement.get(console, options, self.text).maximum
        return Measurement(min(_NARROWEST_CELL, widest), widest)


def break_lines(text: Text, columns: int) -> Text:
    """Return the text with line breaks; rich would break Chinese text only at spaces."""
    if text.plain.isascii():
        return text
    lines: list[Text] = []
    for line in text.split(allow_blank=True):
        lines += line.divide(line_breaks(line.plain, columns))
    for line in lines:
        line.rstrip()
    return Text("\n", style=text.style, justify=text.justify).join(lines)


def speaks_utf8(out: TextIO) -> bool:
    return "utf" in (out.encoding or "").replace("-", "").casefold()


def to_ascii(text: str) -> str:
    """Return the text with all replaceable characters as ASCII."""
    return "".join(_ASCII.get(letter, letter) for letter in text)


def replace_unencodable(out: TextIO) -> None:
    """Replace characters that `out` cannot encode, with a question mark as the last resort."""
    codecs.register_error(_ENCODING_ERRORS, _ascii_replacement)
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=_ENCODING_ERRORS)


def _ascii_replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_ASCII.get(letter, "?") for letter in letters), error.end
