"""Rich renderables for blocks and questions."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from agent import events
from gateway.cli.console.output.diff import diff
from gateway.presenter.blocks import Block, Style, more_lines

HINT = " (Ctrl-O)"
STYLES: dict[Style, str] = {"plain": "", "dim": "dim", "warning": "yellow", "error": "red"}
_THOUGHT = "dim italic"
_LINE_STYLES = {"code": "bold", "reason": "dim", "note": "yellow"}


class _ResultLines:
    """Result below a tool call; wrapped lines stay indented."""

    def __init__(self, lines: Sequence[str], style: str) -> None:
        self._text = Text("\n".join(lines))
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for n, line in enumerate(self._text.wrap(console, max(options.max_width - 4, 10))):
            yield Text(("    " if n else "  └ ") + line.plain, self._style)


def markdown(text: str) -> RenderableType:
    # Imported here, because it loads a parser and a highlighter, which are not needed before the
    # first answer.
    from gateway.cli.console.output.markdown import render_markdown

    return render_markdown(text)


def render(block: Block, hint: str = "") -> RenderableType:
    """Render a final block; `hint` follows the note that lines were omitted."""
    match block.kind:
        case "answer":
            return markdown(block.text)
        case "thought":
            return _thought(block.lines, more_lines(block.omitted) if block.omitted else "")
        case "call":
            parts: list[RenderableType] = [call_title(block)]
            if lines := block.shown_lines(hint):
                parts.append(_ResultLines(lines, STYLES[block.style]))
            if block.diff:
                parts.append(diff(block.diff))
            return Group(*parts)
        case _:
            return note(block)


def render_whole(block: Block) -> RenderableType:
    """Render a block in full, including everything that `render` leaves out."""
    if block.kind == "thought":
        return _thought(block.text.split("\n"))
    head = Text(f"⏷ {block.heading}", "bold")
    body = Text("\n".join(f"  {line}" for line in block.text.split("\n")))
    more = [diff(block.diff, None)] if block.diff else []
    if block.file:
        more.append(Text(f"  {block.file}", "dim"))
    return Group(head, body, *more)


def call_title(block: Block) -> Text:
    mark = "red" if block.state == "failed" else "cyan"
    title = Text.assemble((f"{block.mark} ", mark))
    for part in block.title:
        title.append(part.text, "" if part.argument else "bold")
    return title.append(f" {block.detail}") if block.detail else title


def note(block: Block) -> Text:
    return Text(block.marked_text, STYLES[block.style])


def subagent(block: Block, frame: str) -> Text:
    """Render the status line of a sub-agent; `frame` is the character of the spinner."""
    return Text.assemble(
        (frame, "cyan"),
        f" {block.tool} ",
        (f"{block.text} · {block.elapsed}", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


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


def _thought(lines: Sequence[str], note: str = "") -> Text:
    return Text("✻ " + "\n  ".join([*lines, note] if note else lines), _THOUGHT)
