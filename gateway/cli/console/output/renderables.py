"""Rich renderables for markdown, diffs, tool calls and questions."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from agent import events
from agent.i18n import plural, t
from agent.text.visible import escape_invisible
from gateway.cli.console.output.collapsed import THOUGHT_LINES
from gateway.cli.console.output.diff import diff
from gateway.cli.console.output.text import outcome, started_line

_LINE_STYLES = {"code": "bold", "reason": "dim", "note": "yellow"}


class _Outcome:
    """Result below a tool call; wrapped lines stay indented."""

    def __init__(self, lines: Sequence[str], style: str) -> None:
        self._text = Text("\n".join(lines))
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for n, line in enumerate(self._text.wrap(console, max(options.max_width - 4, 10))):
            yield Text(("    " if n else "  └ ") + line.plain, self._style)


def markdown(text: str) -> RenderableType:
    # It loads a parser and a highlighter, which are not needed before the first answer.
    from gateway.cli.console.output.markdown import render_markdown

    return render_markdown(text)


def tool_call(name: str, arguments: str) -> Text:
    return Text.assemble(("● ", "cyan"), (name, "bold"), f" {arguments}" if arguments else "")


def unfinished_call(started: events.ToolStart) -> RenderableType:
    line = started_line(started).removeprefix(started.name).strip()
    return Group(tool_call(started.name, line), Text(f"  └ {t('stopped')}", "yellow"))


def tool_outcome(
    started: events.ToolStart | None, result: events.ToolResulted, hint: str = ""
) -> RenderableType:
    """Render a call with its result.

    `hint` follows the note that lines were omitted.
    """
    line = started_line(started) if started else result.name
    head = tool_call(result.name, line.removeprefix(result.name).strip())
    if result.is_error:
        head.stylize("red", 0, 1)
    lines = [line + hint * line.startswith("…") for line in outcome(result)]
    body = _Outcome(lines, "red" if result.is_error else "dim")
    return Group(head, body, diff(result.diff)) if result.diff else Group(head, body)


def question(approval: events.ApprovalAsked) -> RenderableType:
    """Render all lines of a question."""
    view = approval.view
    parts: list[RenderableType] = [
        Text.assemble(("? ", "bold yellow"), (view.title, "bold")),
    ]
    for kind, lines in groupby(view.lines, lambda line: line.kind):
        texts = [line.text for line in lines]
        if kind == "diff":
            parts.append(diff("\n".join(texts), None))
        else:
            parts += [Text(f"  {text}", _LINE_STYLES.get(kind, "")) for text in texts]
    return Group(*parts)


def thought(text: str) -> Text:
    lines = escape_invisible(text).strip().split("\n")
    text_shown = Text("✻ " + "\n  ".join(lines[:THOUGHT_LINES]), "dim italic")
    if len(lines) > THOUGHT_LINES:
        text_shown.append(
            "\n  " + plural(len(lines) - THOUGHT_LINES, "… {n:,} more line", "… {n:,} more lines")
        )
    return text_shown
