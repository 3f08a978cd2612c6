"""Markdown rendering of answers: flush left, compact, with line breaks and coloured code."""

import re
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    Markdown,
    MarkdownElement,
    Paragraph,
    TableElement,
)
from rich.syntax import Syntax
from rich.table import Table

from agent.text.visible import escape_invisible
from gateway.cli.console.output.screen import break_lines

_PROMISE = re.compile(r"<promise>.*?</promise>", re.DOTALL)


class _LeftHeading(Heading):
    """Left-aligned heading; the library centers headings."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Paragraph(Paragraph):
    """Paragraph that breaks Chinese text at the end of a line and not at the next space."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = self.justify
        yield break_lines(self.text, options.max_width)


class _TightCode(CodeBlock):
    """Code block without surrounding empty lines, because the space between blocks suffices."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Table(TableElement):
    """Table that omits nothing: text without spaces wraps anywhere."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for renderable in super().__rich_console__(console, options):
            if isinstance(renderable, Table):
                for column in renderable.columns:
                    column.overflow = "fold"
            yield renderable


class _Markdown(Markdown):
    """Markdown that preserves line breaks, as in every chat."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "paragraph_open": _Paragraph,
        "fence": _TightCode,
        "code_block": _TightCode,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        # URLs are shown in full: a link text that is another URL would be deceptive.
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup = text
        # Without HTML, because it would be dropped, and <Button> is text that should be shown.
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.parse(text)
        for block in self.parsed:
            # An entity such as `&#x202e;` is ordinary text until it is parsed.
            block.content = escape_invisible(block.content)
            for token in block.children or ():
                token.content = escape_invisible(token.content)
                if token.type == "softbreak":
                    token.type = "hardbreak"
                elif token.type == "image":
                    # Pictures are not downloaded: show the alternative text and the URL.
                    source = token.attrs.get("src", "")
                    token.content = f"{token.content} ({source})".strip()
                    token.type = "text"


def render_markdown(text: str) -> RenderableType:
    # A signal has its own line.
    return _Markdown(escape_invisible(_PROMISE.sub("", text)))
