"""View of a turn: permanent output and a live tail."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from rich.text import Text

from agent import events
from agent.i18n import mark_for_translation, t
from agent.text.visible import escape_invisible
from gateway.cli.console.output import renderables
from gateway.cli.console.output.approval_choices import choices_text
from gateway.cli.console.output.approval_text import server_verdict, time_left, verdict, words_hint
from gateway.cli.console.output.collapsed import HINT, CollapsedOutputs
from gateway.cli.console.output.footer import Footer, spinner
from gateway.cli.console.output.line_buffer import LineBuffer
from gateway.cli.console.output.markdown_blocks import MarkdownBlocks
from gateway.cli.console.output.screen import Screen
from gateway.cli.console.output.subagent_lines import SubagentLines
from gateway.cli.console.output.text import event_line, seconds, started_line
from gateway.core.records import Delivered, WatchEvent

_TAIL_CHARS = 6000
_TABLE_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_OUTPUT_LINES = 5
_MOST_TURNS = 8
_STOPPED = mark_for_translation("⏹ Stopped.")
_BESIDE_WORDS = re.compile(r"<promise>.*?</promise>|\s+", re.DOTALL)


class TurnView:
    """Shows the events of a turn.

    Call `take` for every event, `tick` about ten times a second, and `end` when the turn is over.
    `unanswered`: text of undelivered answers that an earlier view on this screen has shown.
    """

    def __init__(self, screen: Screen, unanswered: str = "") -> None:
        self._screen = screen
        self.footer = Footer(screen)
        # Streamed texts of the last turns: a delivery may arrive after the next turn has begun.
        self._spoken_texts: deque[str] = deque([unanswered], maxlen=_MOST_TURNS)
        self._is_resumed = bool(unanswered)
        self.unanswered = unanswered
        self._earlier_text = ""
        self._errors: deque[str] = deque(maxlen=_MOST_TURNS)
        self._subagents = SubagentLines()
        self._collapsed = CollapsedOutputs()
        self._reset()

    def _reset(self) -> None:
        self._blocks = MarkdownBlocks()
        self._rendered_block: tuple[tuple[str, int], list[str]] = (("", 0), [])
        self._thinking = ""
        self._tools: dict[str, events.ToolStart] = {}
        self._output: dict[str, LineBuffer] = {}
        self._printed = LineBuffer()
        self._last: Literal["text", "beside"] | None = None
        self._shown_diff: str | None = None

    def begin(self) -> None:
        self.footer.begin()
        self._screen.begin_tail(self._tail)

    def end(self) -> None:
        """Remove the tail and print its unfinished parts permanently."""
        self._flush()
        self._screen.end_tail()
        self._reset()

    def say(self, text: str, style: str = "dim") -> None:
        """Print a line from the console itself."""
        self._screen.print(Text(text), style)

    def unfold(self) -> bool:
        """Expand the most recent shortened output; each further call goes one back.

        Returns False if there are no more.
        """
        output = self._collapsed.unfold()
        if output is not None:
            self._flush()
            self._screen.print(output)
            self._screen.print()
        return output is not None

    def take(self, event: WatchEvent) -> None:
        self.footer.take(event)
        match event:
            case events.TextDelta(text=text):
                self._spoken_texts[-1] += text
                self.unanswered += text
                for block in self._blocks.feed(text):
                    self._print_block(block)
            case events.SessionStart():
                self._spoken_texts.append("")
            case events.IterationStart():
                self._flush()
                self._earlier_text = self._spoken_texts[-1]
            case events.Retry():
                self._blocks = MarkdownBlocks()
                self._thinking = ""
                self._spoken_texts[-1] = self._earlier_text
                self.say(f"↻ {event_line(event)}; {t('partial output discarded')}")
            case events.ThinkingDelta() | events.ThinkingEnd():
                self._take_thinking(event)
            case events.ToolStart() | events.ToolOutput() | events.ToolResulted():
                self._take_tool(event)
            case events.ApprovalAnswered():
                text = (
                    server_verdict(event.answer)
                    if event.server
                    else verdict(event.answer, event.words, event.prefix, event.network)
                )
                self.say(f"  {text}")
            case Delivered():
                self._deliver(event)
            case events.FromAgent():
                self._subagents.take(event)
            case events.Done():
                self._close_turn(event)
            case _:
                self._show_event(event)

    def ask(self, approval: events.ApprovalAsked, is_armed: Callable[[], bool]) -> None:
        """Show a question; the footer lists its keys until it is settled."""
        self._flush()
        if self._last == "text":
            self._screen.print()
            self._last = "beside"
        self._screen.print(renderables.question(approval))
        self._shown_diff = approval.request.diff
        self.footer.ask(approval, is_armed)
        if not self._screen.live:
            # The choices need a line of their own, because only a live screen has a footer.
            choices = f"  {choices_text(approval)}{time_left(approval.expires_s)}"
            self._screen.print(Text(choices, "bold"))

    def ask_words(self, asks: bool) -> None:
        """Show or hide the hint in the footer to write text for the model."""
        self.footer.asks_words = asks
        if asks and self.footer.approval is not None and not self._screen.live:
            self._screen.print(Text(f"  {words_hint(self.footer.approval)}", "bold"))

    def tick(self) -> None:
        self._screen.refresh()

    def show_output(self, text: str) -> None:
        """Print output of a command that the person runs, permanently and without delay."""
        if lines := self._printed.feed(text):
            self._flush()
            self._screen.print_lines(lines)

    def close_output(self, ending: str | None) -> None:
        if rest := self._printed.finish():
            self._screen.print_lines(rest)
        if ending is not None:
            self.say(f"  {ending}")

    def _take_thinking(self, event: events.ThinkingDelta | events.ThinkingEnd) -> None:
        if isinstance(event, events.ThinkingDelta):
            self._thinking += event.text
            return
        self._thinking = ""
        if event.thinking.strip():
            self._flush()
            if self._last == "text":
                self._screen.print()
            self._collapsed.keep_thought(event.thinking)
            self._screen.print(renderables.thought(event.thinking))
            self._last = "beside"

    def _take_tool(self, event: events.ToolStart | events.ToolOutput | events.ToolResulted) -> None:
        match event:
            case events.ToolStart():
                self._flush()
                self._tools[event.id] = event
            case events.ToolOutput(id=id, text=text):
                self._output.setdefault(id, LineBuffer(_OUTPUT_LINES)).feed(text)
            case events.ToolResulted():
                self._flush()
                self._output.pop(event.id, None)
                if self._last == "text":
                    self._screen.print()
                if event.diff == self._shown_diff:
                    event = replace(event, diff=None)
                started = self._tools.pop(event.id, None)
                self._collapsed.keep(started, event)
                hint = HINT if self._screen.live else ""
                self._screen.print(renderables.tool_outcome(started, event, hint))
                self._last = "beside"

    def _show_event(self, event: events.Event) -> None:
        line = event_line(event)
        if line is None:
            return
        self._flush()
        match event:
            case events.Error(message=message):
                self._errors.append(message)
                self.say(f"✗ {line}", "red")
            case events.Signalled():
                self.say(f"■ {line}", "yellow")
            case events.Notice(level="warning"):
                self.say(f"! {line}", "yellow")
            case _:
                self.say(f"· {line}")

    def _close_turn(self, done: events.Done) -> None:
        self._flush()
        for started in self._tools.values():
            self._screen.print(renderables.unfinished_call(started))
        self._tools.clear()
        self._output.clear()
        if done.result.stopped == "cancelled":
            # The delivery reports this too, but perhaps after the next turn has begun.
            self.say(t(_STOPPED), "yellow")
            self._spoken_texts.append(t(_STOPPED))
        usage = done.result.usage
        if usage.input or usage.output:
            took = seconds(self.footer.worked_s)
            tokens = t(
                "{input:,} tokens in, {output:,} out", input=usage.input, output=usage.output
            )
            self.say(f"{took} · {tokens}")
        self._screen.print()
        self._last = None
        self.footer.begin()

    def _deliver(self, delivered: Delivered) -> None:
        self._show_news(delivered)
        if delivered.last and delivered.kind == "final":
            self.unanswered = ""
            if self._is_resumed:
                # A later answer may have the same text.
                self._is_resumed = False
                self._spoken_texts[0] = ""

    def _show_news(self, delivered: Delivered) -> None:
        """Show the parts of a delivery that were not streamed already."""
        streamed = [_bare(text) for text in self._spoken_texts]
        blocks = [
            block
            for block in _paragraphs(delivered.text)
            if not any(_bare(block) in text for text in streamed)
            and not any(error in block for error in self._errors)
        ]
        if not blocks:
            return
        self._flush()
        if delivered.maybe_duplicate:
            self.say(f"↻ {t('possible duplicate')}")
        for block in blocks:
            self._print_block(block)
        if delivered.last:
            self._screen.print()
            self._last = None

    def _flush(self) -> None:
        """Print the unfinished part of the answer permanently."""
        if rest := self._blocks.finish():
            self._print_block(rest)

    def _print_block(self, block: str) -> None:
        if self._last is not None:
            self._screen.print()
        self._screen.print_block(renderables.markdown(block))
        self._last = "text"

    def _tail(self) -> list[str]:
        lines: list[str] = []
        if self._thinking:
            lines += self._screen.render(
                Text(escape_invisible(self._thinking[-600:]), "dim italic")
            )[-3:]
        if tail := self._shortened_tail():
            lines += ["", *self._set(tail)]
        for started in self._tools.values() if self.footer.approval is None else ():
            call = started_line(started).removeprefix(started.name).strip()
            lines += self._screen.render(renderables.tool_call(started.name, call))[:2]
            for line in self._latest(started.id):
                lines += self._screen.render(Text(f"    {line}", "dim", no_wrap=True))[:1]
        for line in self._printed.latest:
            lines += self._screen.render(Text(line, no_wrap=True))[:1]
        for member in self._subagents.lines(spinner()) if self.footer.approval is None else ():
            lines += self._screen.render(member)[:1]
        room = max(1, self._screen.rows - 4)
        foot = self.footer.lines(thinking=bool(self._thinking))
        return [*lines[-room:], *foot]

    def _latest(self, call: str) -> list[str]:
        return self._output[call].latest[-_OUTPUT_LINES:] if call in self._output else []

    def _set(self, tail: str) -> list[str]:
        """Return the tail as rows, rendered again only after a change of text or window."""
        key = (tail, self._screen.console.width)
        if self._rendered_block[0] != key:
            self._rendered_block = (key, self._screen.render_block(renderables.markdown(tail)))
        return self._rendered_block[1]

    def _shortened_tail(self) -> str:
        """Return the visible end of the tail with the lines needed to render it."""
        tail = self._blocks.tail
        lines = tail[-_TAIL_CHARS:].split("\n")
        if len(lines) <= self._screen.rows and len(tail) <= _TAIL_CHARS:
            return tail
        visible = lines[-self._screen.rows :]
        if (opening := self._blocks.open_fence) is not None:
            return "\n".join([opening, *visible])
        head = tail.split("\n", 2)[:2]
        if len(head) == 2 and _TABLE_RULE.fullmatch(head[1]):
            return "\n".join([*head, *visible[2:]])
        # Indented text belongs to a line at the margin.
        first = next((n for n, line in enumerate(visible) if line[:1].strip()), 0)
        return "\n".join(visible[first:])


def _bare(text: str) -> str:
    """Return the text without parts that may differ between stream and delivery."""
    return _BESIDE_WORDS.sub("", text)


def _paragraphs(text: str) -> list[str]:
    blocks = MarkdownBlocks()
    return [block for block in [*blocks.feed(text), blocks.finish()] if block]
