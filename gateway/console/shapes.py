"""How things look: markdown, diffs, tool calls, questions."""

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax
from rich.text import Text

from agent import events
from agent.language import t
from gateway.console.approvals import subject
from gateway.console.diffs import diff
from gateway.console.lines import call_line, outcome, visible

_THOUGHT_LINES = 8
_PROMISE = re.compile(r"<promise>.*?</promise>", re.DOTALL)


class _LeftHeading(Heading):
    """A heading at the margin: an answer is not a title page."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _TightCode(CodeBlock):
    """Code without empty lines of its own: those between two blocks are enough."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Markdown(Markdown):
    """Line ends stay line ends, as in every chat: an answer is not typeset."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _TightCode,
        "code_block": _TightCode,
    }

    def __init__(self, text: str) -> None:
        # Addresses are spelled out: a link whose text is another address would deceive.
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)
        for block in self.parsed:
            for token in block.children or ():
                if token.type == "softbreak":
                    token.type = "hardbreak"


class _Outcome:
    """What a call came to, under it: lines that wrap stay indented."""

    def __init__(self, lines: Sequence[str], style: str) -> None:
        self._text = Text("\n".join(lines))
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for n, line in enumerate(self._text.wrap(console, max(options.max_width - 4, 10))):
            yield Text(("    " if n else "  ⎿ ") + line.plain, self._style)


def markdown(text: str) -> RenderableType:
    # A signal is told by a line of its own.
    return _Markdown(visible(_PROMISE.sub("", text)))


def tool_call(name: str, arguments: str) -> Text:
    return Text.assemble(("⏺ ", "cyan"), (name, "bold"), f" {arguments}" if arguments else "")


def unfinished_call(started: events.ToolStart) -> RenderableType:
    line = call_line(started.name, started.arguments).removeprefix(started.name).strip()
    return Group(tool_call(started.name, line), Text(f"  ⎿ {t('stopped')}", "yellow"))


def tool_outcome(
    started: events.ToolStart | None, result: events.ToolResulted, hint: str = ""
) -> RenderableType:
    """`hint` stands behind what says that lines were left out."""
    line = call_line(result.name, started.arguments if started else {})
    head = tool_call(result.name, line.removeprefix(result.name).strip())
    if result.is_error:
        head.stylize("red", 0, 1)
    lines = [line + hint * line.startswith("… ") for line in outcome(result)]
    body = _Outcome(lines, "red" if result.is_error else "dim")
    return Group(head, body, diff(result.diff)) if result.diff else Group(head, body)


def question(asked: events.ApprovalAsked) -> RenderableType:
    """All of what would happen: nothing that a person approves may be hidden."""
    head = Text.assemble(("? ", "bold yellow"), (subject(asked), "bold"))
    reason = Text(f"  {visible(asked.reason)}", "dim")
    return Group(head, diff(asked.diff, None), reason) if asked.diff else Group(head, reason)


def thought(text: str) -> Text:
    lines = visible(text).strip().split("\n")
    shown = Text("✻ " + "\n  ".join(lines[:_THOUGHT_LINES]), "dim italic")
    if len(lines) > _THOUGHT_LINES:
        shown.append("\n  " + t("… {n:,} more lines", n=len(lines) - _THOUGHT_LINES))
    return shown
