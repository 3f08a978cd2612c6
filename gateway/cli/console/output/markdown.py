"""Markdown as an answer is shown: at the margin, tight, its line ends kept, its code coloured."""

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
    """A heading at the margin: an answer is not a title page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Paragraph(Paragraph):
    """A paragraph whose Chinese goes on where the line has room, not at the next blank."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = self.justify
        yield break_lines(self.text, options.max_width)


class _TightCode(CodeBlock):
    """Code without empty lines of its own: those between two blocks are enough."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Table(TableElement):
    """A table that leaves nothing out: what has no blanks wraps anywhere."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for renderable in super().__rich_console__(console, options):
            if isinstance(renderable, Table):
                for column in renderable.columns:
                    column.overflow = "fold"
            yield renderable


class _Markdown(Markdown):
    """Line ends stay line ends, as in every chat: an answer is not typeset."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "paragraph_open": _Paragraph,
        "fence": _TightCode,
        "code_block": _TightCode,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        # Addresses are spelled out: a link whose text is another address would deceive.
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup = text
        # No HTML: it would be dropped, and <Button> is a word that should be shown.
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self.parsed = parser.parse(text)
        for block in self.parsed:
            # An entity such as `&#x202e;` is one plain word until it is parsed.
            block.content = escape_invisible(block.content)
            for token in block.children or ():
                token.content = escape_invisible(token.content)
                if token.type == "softbreak":
                    token.type = "hardbreak"
                elif token.type == "image":
                    # Nothing is fetched: its words, and where it is.
                    source = token.attrs.get("src", "")
                    token.content = f"{token.content} ({source})".strip()
                    token.type = "text"


def render_markdown(text: str) -> RenderableType:
    # A signal is told by a line of its own.
    return _Markdown(escape_invisible(_PROMISE.sub("", text)))
