"""Feed of a tab: thousands of entries as lines of one scroll view.

One widget per message would cost 400 ms per key press with 200 messages (measured with textual
8.2). This view renders only visible entries and estimates the height of the others.
"""

import io
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from rich.theme import Theme
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from gateway.cli.console.output.screen import break_lines
from gateway.cli.tui.feed_content import FeedContent, FeedEntry

_NARROWEST = 20
# Length limit for a height estimate. A longer text is rendered anyway once it is visible.
_MEASURED_CHARS = 20_000


@dataclass(slots=True)
class _Row:
    """Entry with its height in the feed. Without `strips`, the height is an estimate."""

    entry: FeedEntry
    height: int
    strips: list[Strip] | None = None


class Feed(ScrollView, can_focus=True):
    """Scroll view of a `FeedContent` that follows the end while the person looks at it."""

    # A scrollbar that appears and disappears would force a new layout of all entries.
    DEFAULT_CSS = "Feed { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }"

    def __init__(self, content: FeedContent, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content = content
        self._edition = content.edition
        self._rows: list[_Row] = []
        self._starts: list[int] = [0]
        self._final_rows = 0
        self._columns = 0
        self.is_at_end = True
        self.needle = ""
        self._typesetter = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            theme=_theme(),
            highlight=False,
            markup=False,
            emoji=False,
        )

    def show_news(self) -> None:
        """Show the current state of the content."""
        if self._edition != self._content.edition:
            self._edition, self._final_rows = self._content.edition, 0
            self._rows.clear()
        live = {id(row.entry): row for row in self._rows[self._final_rows :]}
        del self._rows[self._final_rows :]
        for entry in self._content.entries[self._final_rows :]:
            self._rows.append(live.get(id(entry)) or self._new_row(entry))
        self._final_rows = len(self._rows)
        for entry in self._content.live():
            self._rows.append(live.get(id(entry)) or self._new_row(entry))
        self._lay_out()

    def find(self, needle: str, *, backwards: bool) -> bool:
        """Scroll to the next entry that contains the text; return False without a match.

        The search starts at the first visible line.
        """
        self.needle = needle.casefold()
        self.refresh()
        if not self.needle or not self._rows:
            return False
        here = self._row_at(self.scroll_offset.y)
        count = len(self._rows)
        step = -1 if backwards else 1
        for distance in range(1, count + 1):
            n = (here + step * distance) % count
            if self.needle in self._rows[n].entry.text.casefold():
                self.scroll_to_row(n)
                return True
        return False

    def scroll_to_row(self, n: int) -> None:
        self.is_at_end = False
        for row in self._rows[n : n + max(1, self.size.height)]:
            self._typeset(row)
        self._lay_out()
        self.scroll_to(y=self._starts[n], animate=False, immediate=True, force=True)

    def go_to_end(self) -> None:
        self.is_at_end = True
        self._lay_out()

    def plain_text(self) -> str:
        """Return the whole feed as text for a pager."""
        self.typeset_all()
        return "\n".join(strip.text.rstrip() for row in self._rows for strip in self._typeset(row))

    def typeset_all(self) -> None:
        """Replace all height estimates with real heights; the top line does not move."""
        if all(row.strips is not None for row in self._rows):
            return
        top = round(self.scroll_y)
        first = self._row_at(top)
        offset = top - self._starts[first]
        for row in self._rows:
            self._typeset(row)
        self._place()
        if not self.is_at_end:
            self._set_top(self._starts[first] + offset)
        self._lay_out()

    def render_line(self, y: int) -> Strip:
        x, top = self.scroll_offset
        width, line = self.size.width, top + y
        if line >= self._starts[-1]:
            return Strip.blank(width, self.rich_style)
        n = self._row_at(line)
        strips = self._typeset(self._rows[n])
        offset = line - self._starts[n]
        strip = strips[offset] if offset < len(strips) else Strip.blank(0)
        strip = self._marked(strip, line).crop_extend(x, x + width, None)
        return strip.apply_style(self.rich_style).apply_offsets(x, line)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if selection.start is None and selection.end is None:
            return self.plain_text(), "\n"
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._starts[-1]
        lines: list[str] = []
        for n, row in enumerate(self._rows):
            if self._starts[n + 1] <= first or self._starts[n] > last:
                lines += [""] * row.height
            else:
                strips = row.strips if row.strips is not None else self._lines_of(row.entry)
                texts = [strip.text.rstrip() for strip in strips]
                lines += (texts + [""] * row.height)[: row.height]
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.is_at_end = new_value >= self.max_scroll_y
        first = self._row_at(round(new_value)) if self._rows else 0
        if any(row.strips is None for row in self._rows_in_view(first)):
            # Entries above the first line keep their estimates, so that nothing jumps.
            self._lay_out()

    def _new_row(self, entry: FeedEntry) -> _Row:
        return _Row(entry, self._estimate(entry))

    def _lay_out(self) -> None:
        """Place all entries and render the visible ones."""
        if self.size.height == 0:
            return
        if (columns := max(_NARROWEST, self.size.width)) != self._columns:
            self._columns = columns
            self._forget_lines()
        top = round(self.scroll_y)
        if self.is_at_end:
            self._typeset_end()
        self._place()
        if not self.is_at_end and self._rows:
            first = self._row_at(top)
            for row in self._rows_in_view(first):
                self._typeset(row)
            self._place()
        self.virtual_size = Size(self._columns, self._starts[-1])
        if self.is_at_end:
            self.scroll_end(animate=False, immediate=True, force=True)
        self.refresh()

    def _forget_lines(self) -> None:
        """Discard the rendered lines after a change of width; the top entry stays the same."""
        first = self._row_at(round(self.scroll_y)) if self._rows else 0
        for row in self._rows:
            row.strips, row.height = None, self._estimate(row.entry)
        if not self.is_at_end:
            self._place()
            self._set_top(self._starts[first])

    def _set_top(self, line: int) -> None:
        self.set_reactive(Feed.scroll_y, float(line))
        self.set_reactive(Feed.scroll_target_y, float(line))

    def _typeset_end(self) -> None:
        missing = self.size.height
        for row in reversed(self._rows):
            if missing <= 0:
                return
            self._typeset(row)
            missing -= row.height

    def _rows_in_view(self, first: int) -> Iterator[_Row]:
        if not self._rows:
            return
        # The first row may be visible in part.
        rest = self.size.height + self._rows[first].height
        for row in self._rows[first:]:
            if rest < 0:
                return
            rest -= row.height
            yield row

    def _place(self) -> None:
        self._starts = [0, *accumulate(row.height for row in self._rows)]

    def _row_at(self, line: int) -> int:
        """Return the index of the row that contains a line of the feed."""
        return min(bisect_right(self._starts, line) - 1, len(self._rows) - 1)

    def _typeset(self, row: _Row) -> list[Strip]:
        if row.strips is None:
            row.strips = list(self._lines_of(row.entry))
            row.height = len(row.strips)
        return row.strips

    def _lines_of(self, entry: FeedEntry) -> Iterator[Strip]:
        renderable = entry.render()
        width = max(_NARROWEST, self._columns or self.size.width) - 2
        if isinstance(renderable, Text) and not renderable.no_wrap:
            renderable = break_lines(renderable, width)
        options = self._typesetter.options.update(width=width, height=None)
        lines = self._typesetter.render_lines(renderable, options, pad=False)
        strips = [Strip(line) for line in lines]
        filled = [n for n, strip in enumerate(strips) if strip.text.strip()]
        if not entry.joined:
            yield Strip.blank(0)
        yield from strips[filled[0] : filled[-1] + 1] if filled else ()

    def _estimate(self, entry: FeedEntry) -> int:
        width = max(_NARROWEST, self._columns or self.size.width) - 2
        lines = entry.text[:_MEASURED_CHARS].split("\n")
        rows = sum(max(1, math.ceil(cell_len(line) / width)) for line in lines)
        return rows + (not entry.joined)

    def _marked(self, strip: Strip, line: int) -> Strip:
        """Return the strip with the selection and the search match highlighted."""
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            style = self.screen.get_component_rich_style("screen--selection")
            strip = _styled(strip, start, strip.cell_length if end == -1 else end, style)
        if self.needle and (at := strip.text.casefold().find(self.needle)) >= 0:
            start = cell_len(strip.text[:at])
            end = start + cell_len(strip.text[at : at + len(self.needle)])
            strip = _styled(strip, start, end, self._typesetter.get_style("reverse"))
        return strip


def _styled(strip: Strip, start: int, end: int, style: "object") -> Strip:
    parts: Sequence[Strip] = (
        strip.crop(0, start),
        strip.crop(start, end).apply_style(style),  # type: ignore[arg-type]
        strip.crop(end),
    )
    return Strip.join(parts)


def _theme() -> Theme:
    """Return a theme without black behind code on light screens and with quotes not in red."""
    return Theme({"markdown.code": "bold cyan", "markdown.block_quote": "dim italic"})
