"""Conversion of parsed markdown to text with formatting."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from agent.text.visible import escape_line
from gateway.channels.telegram.outbound.entity_writer import EntityWriter
from gateway.channels.telegram.outbound.latex import readable
from gateway.channels.telegram.outbound.markdown_prepare import (
    END_SPOILER,
    FORMULA,
    SPOILER,
    Events,
    definitions,
)
from gateway.channels.telegram.outbound.rich_message import (
    FORMULA as RICH_FORMULA,
)
from gateway.channels.telegram.outbound.rich_message import (
    HEADING,
    MAX_COLUMNS,
    TABLE_ROW,
    rich_text,
)
from gateway.channels.telegram.outbound.table import Table, columns
from gateway.core.messages import Entity

_MAX_CHARS = 2048

_WEB = re.compile(
    r"(?:https?|ftp)://(?:[\w.:%+-]*@)?"
    r"(?:[^\W_][\w-]{0,62}(?:\.[^\W_][\w-]{0,62})+\.?|\[[0-9a-f:.]+\])"
    r"(?::\d{1,5})?(?:[/?#][^\n]*)?",
    re.IGNORECASE,
)

_APP = re.compile(r"(?:tg|ton|tonsite)://[^\s]+", re.IGNORECASE)


def is_clickable(url: str) -> bool:
    """Return whether Telegram accepts the URL: absolute, with a dot in the host.

    `localhost` and paths are not accepted.
    """
    match = _WEB.fullmatch(url) or _APP.fullmatch(url)
    return match is not None and len(url) <= _MAX_CHARS


_INLINE = {"Strong": "bold", "Emphasis": "italic", "Strikethrough": "strikethrough"}

_ALIGNMENTS = {"Left": "left", "Center": "center", "Right": "right"}

_BULLETS = "•◦▪"

_RULE = "———"

_QUOTED, _ITEM = "│ ", "   "

_BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)

_SENTINELS = re.compile(f"([{SPOILER}{END_SPOILER}{FORMULA}])")

_LANGUAGE = re.compile(r"[\w+#.-]*")

# Characters in a formula that Telegram could read as part of an address with adjacent text.
_ADDRESS_JOINT = re.compile(r"[.:@](?=[^\W\d])|^[.:@]|[.:@]$")

# Commands of LaTeX with an address, which a formula that Telegram draws could make clickable.
_ADDRESS_IN_LATEX = re.compile(r"://|\\(?:href|url)\b")

# Bytes of source before a block that are searched for an empty line.
_LOOK_BACK = 200


def _visible_url(url: str) -> str:
    """Return the URL with spaces and invisible characters percent-encoded."""
    hides = [char for char in set(url) if char == " " or escape_line(char) != char]
    return url.translate({ord(char): quote(char) for char in hides})


class MarkdownRenderer:
    """Renderer of the parser's events for one source; `marks` collects the result."""

    def __init__(self, source: bytes) -> None:
        self.marks = EntityWriter()
        self._source = source
        self._lists: list[int | None] = []
        self._links: list[tuple[str, str, int]] = []
        self._code: list[str] | None = None
        self._info = ""
        self._quotes = 0
        self._table: Table | None = None
        self._used: set[str] = set()
        self._heading_start, self._heading_size = 0, 1
        self._table_count = 0

    def events(self, events: Events) -> None:
        for event, span in events:
            if self._table is None:
                self._event(event, span)
            elif not self._table.add(event, span, self._source):
                table, self._table = self._table, None
                self._show(table)

    def _event(self, event: Any, span: dict[str, int]) -> None:
        if isinstance(event, str):
            self._alone(event, span)
            return
        ((kind, value),) = event.items()
        match kind:
            case "Start":
                self._start(value, span)
            case "End":
                self._end(value if isinstance(value, str) else next(iter(value)))
            case "Text" if self._code is not None:
                self._code.append(value)
            case "Text":
                self._text(value)
            case "Code":
                self.marks.code(_SENTINELS.sub("", value))
            case "InlineMath" | "DisplayMath":
                self._math(value, block=kind == "DisplayMath")
            case "InlineHtml" | "Html":
                self._text(_BREAK_TAG.sub("\n", value))
            case "FootnoteReference":
                self._text(f"[{value}]")
            case "TaskListMarker":
                number = f"{self._lists[-1] - 1}. " if self._lists and self._lists[-1] else ""
                self.marks.remark(f"{number}{'☑' if value else '☐'} ")

    def _alone(self, event: str, span: dict[str, int]) -> None:
        if event == "Rule":
            self._block(span)
            self.marks.write(_RULE)
            self.marks.block(1)
        else:
            self.marks.write("\n")

    def _start(self, tag: Any, span: dict[str, int]) -> None:
        value: Any = None
        name = tag
        if not isinstance(tag, str):
            ((name, value),) = tag.items()
        if name in _INLINE:
            self.marks.open(_INLINE[name])
            return
        match name:
            case "Link" | "Image":
                self._link(value, is_image=name == "Image")
            case "Heading":
                self.marks.block(2)
                self.marks.open("bold")
                self._heading_start, self._heading_size = self.marks.length, int(value["level"][1:])
            case "Item":
                self._item(span)
            case _:
                self._block(span)
                self._begin(name, value, span)

    def _begin(self, name: str, value: Any, span: dict[str, int]) -> None:
        match name:
            case "BlockQuote":
                self._quotes += 1
                self.marks.open("blockquote")
                self.marks.indent(_QUOTED if self._quotes > 1 else "")
                if value is not None:
                    self._bold([({"Text": value}, span)])
                    self.marks.block(1)
            case "CodeBlock":
                self._code, self._info = [], value["Fenced"] if isinstance(value, dict) else ""
            case "List":
                self._lists.append(value)
            case "FootnoteDefinition":
                self.marks.indent(_ITEM, f"[{value}] ")
            case "Table":
                self._table = Table(value)

    def _end(self, name: str) -> None:
        marks = self.marks
        match name:
            case _ if name in _INLINE:
                marks.close(_INLINE[name])
            case "Link" | "Image":
                self._end_link()
            case "Heading":
                marks.close("bold")
                if not marks.has_margin:
                    marks.cover(HEADING, self._heading_start, size=self._heading_size)
                marks.block(1)
            case "BlockQuote":
                self._quotes -= 1
                marks.outdent()
                marks.close("blockquote")
                marks.block(1)
            case "CodeBlock":
                self._end_code()
            case "List":
                self._lists.pop()
                marks.block(1)
            case "Item" | "FootnoteDefinition":
                marks.outdent()
                marks.block(1)
            case "Paragraph" | "HtmlBlock":
                marks.block(1)

    def _block(self, span: dict[str, int]) -> None:
        """Start a block, after an empty line if the source has one there.

        A spoiler cannot span blocks, so an open one ends here.
        """
        if self.marks.is_open("spoiler"):
            self.marks.close("spoiler")
        before = self._source[max(span["start"] - _LOOK_BACK, 0) : span["start"]]
        gap = before[len(before.rstrip(b" \t>\n")) :]
        self.marks.block(2 if gap.count(b"\n") > 1 else 1)

    def _item(self, span: dict[str, int]) -> None:
        self._block(span)
        number = self._lists[-1] if self._lists else None
        if number is None:
            bullet = _BULLETS[min(len(self._lists), len(_BULLETS)) - 1]
            self.marks.indent(_ITEM, f"{bullet} ")
        else:
            self._lists[-1] = number + 1
            self.marks.indent(_ITEM, f"{number}. ")

    def _text(self, text: str) -> None:
        for piece in _SENTINELS.split(text):
            if piece == SPOILER:
                self.marks.open("spoiler")
            elif piece == END_SPOILER:
                self.marks.close("spoiler")
            elif piece != FORMULA:
                self.marks.write(piece)

    def _math(self, latex: str, *, block: bool) -> None:
        latex = _SENTINELS.sub("", latex).strip()
        text = readable(latex)
        if block:
            self.marks.block(1)
        start = self.marks.length
        is_readable = text is not None and _ADDRESS_JOINT.search(text) is None
        if text is not None and is_readable:
            self.marks.write(text)
        elif block:
            self.marks.pre(latex, "latex")
        else:
            self.marks.code(latex)
        if latex and not _ADDRESS_IN_LATEX.search(latex):
            self.marks.cover(RICH_FORMULA, start, latex=latex, block=block, readable=is_readable)
        if block:
            self.marks.block(1)

    def _link(self, link: dict[str, str], *, is_image: bool) -> None:
        url = _SENTINELS.sub("", link["dest_url"])
        self._used.add(link["id"])
        if is_image:
            self.marks.write("🖼 ")
        self._links.append((url, "text_link" if is_clickable(url) else "", self.marks.length))
        if is_clickable(url):
            self.marks.open("text_link", url=_visible_url(url))

    def _end_link(self) -> None:
        """End a link; a URL that Telegram would not open follows the label as text."""
        url, kind, start = self._links.pop()
        label = self.marks.since(start).strip()
        if not label:
            self.marks.write(url)
        elif not kind and url and not url.startswith("#") and url not in label:
            self.marks.write(f" ({url})")
        if kind:
            self.marks.close(kind)

    def _end_code(self) -> None:
        assert self._code is not None, "a block of code was begun"
        code, self._code = "".join(self._code), None
        match = _LANGUAGE.match(self._info)
        language = match[0] if match else ""
        if more := self._info[len(language) :].strip(" \t,:"):
            self.marks.write(more)
            self.marks.block(1)
        if code.strip():
            self.marks.pre(_SENTINELS.sub("", code).removesuffix("\n"), language)
            self.marks.block(1)

    def _show(self, table: Table) -> None:
        """Write a table in columns if it is narrow and has no links, else row by row."""
        head, *body = table.rows
        texts = [[self._plain(cell) for cell in row] for row in table.rows]
        grid = None if table.has_links else columns(texts, table.alignments)
        cover = self._row_cover(table)
        if grid is not None:
            start = self.marks.pre(grid)
            first, rule, *lines = grid.split("\n")
            end = start + len(first) + 1 + len(rule)
            cover(start, end, None)
            for row, line in zip(body, lines, strict=True):
                start, end = end + 1, end + 1 + len(line)
                cover(start, end, row)
        elif len(head) == 2 or not body:
            start = self.marks.length
            self._bold(*head)
            cover(start, self.marks.length, None)
            for row in filter(any, body):
                self.marks.block(1)
                start = self.marks.length
                self._cells(list(filter(None, row)), "• ", " — ")
                cover(start, self.marks.length, row)
        else:
            for row in body:
                start = self.marks.length
                self._write_row(head, row)
                cover(start, self.marks.length, row)
        self.marks.block(1)

    def _row_cover(self, table: Table) -> Callable[[int, int, list[Events] | None], None]:
        """Return a function that marks a range of text as a row; None stands for the head.

        It does nothing for a table that a rich message cannot show.
        """
        self._table_count += 1
        number, width = self._table_count, max(map(len, table.rows))
        if self.marks.has_margin or self._quotes or width > MAX_COLUMNS:
            return lambda start, end, row: None
        head = [self._rich_cell(cell) for cell in table.rows[0]]
        align = [_ALIGNMENTS.get(name, "left") for name in table.alignments]

        def cover(start: int, end: int, row: list[Events] | None) -> None:
            cells = [self._rich_cell(cell) for cell in row or ()]
            if start < end and (cells or any(head)):
                self.marks.cover(
                    TABLE_ROW, start, end, table=number, head=head, cells=cells, align=align
                )

        return cover

    def _rich_cell(self, cell: Events) -> Any:
        """Return the cell as a RichText, with invisible characters as escapes."""
        walk = MarkdownRenderer(self._source)
        walk.events(cell)
        return rich_text(*walk.marks.finish())

    def _write_row(self, head: list[Events], row: list[Events]) -> None:
        """Write one row: its first cell, then the others with the names of their columns."""
        self.marks.block(2)
        for number, cell in enumerate(row):
            if not cell:
                continue
            self.marks.block(1)
            if number:
                self.marks.write("• ")
            if number < len(head) and head[number]:
                self._cells([head[number]], "", "")
                self.marks.write(": ")
            if number:
                self.events(cell)
            else:
                self._bold(cell)

    def _bold(self, *cells: Events) -> None:
        self.marks.open("bold")
        self._cells(list(cells), "", " — ")
        self.marks.close("bold")

    def _cells(self, cells: list[Events], before: str, between: str) -> None:
        self.marks.write(before)
        for number, cell in enumerate(cells):
            if number:
                self.marks.write(between)
            self.events(cell)

    def _plain(self, cell: Events) -> str:
        walk = MarkdownRenderer(self._source)
        walk.events(cell)
        return walk.marks.finish()[0].replace("\n", " ")

    def finish(self) -> tuple[str, list[Entity]]:
        """Return the text and its entities; unused link definitions are appended."""
        if b"]:" in self._source:
            used = {" ".join(label.split()).casefold() for label in self._used}
            for label, definition in definitions(self._source):
                if " ".join(label.split()).casefold() not in used:
                    self.marks.block(1)
                    self.marks.write(definition)
        return self.marks.finish()
