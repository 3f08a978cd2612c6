"""View of a turn: permanent output and a live tail."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from rich.text import Text

from agent import events
from agent.i18n import t
from gateway.cli.console.output import renderables
from gateway.cli.console.output.approval_text import choices_text, time_left, words_hint
from gateway.cli.console.output.footer import Footer, spinner
from gateway.cli.console.output.screen import Screen
from gateway.core.records import Delivered, WatchEvent
from gateway.presenter.blocks import STOPPED, Block
from gateway.presenter.markdown_blocks import MarkdownBlocks
from gateway.presenter.text import LineBuffer, seconds
from gateway.presenter.turn import TurnPresenter

_TAIL_CHARS = 6000
_TABLE_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_MAX_TURNS = 8
_MAX_COLLAPSED = 50
_MAX_COLLAPSED_CHARS = 2_000_000
_BESIDE_WORDS = re.compile(r"<promise>.*?</promise>|\s+", re.DOTALL)


class CollapsedBlocks:
    """Recent blocks that were not shown in full.

    `unfold` returns the most recent one; each further call goes one back.
    """

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque(maxlen=_MAX_COLLAPSED)
        self._next = 0

    def add(self, block: Block) -> None:
        if not block.is_collapsed:
            return
        self._blocks.append(block)
        self._next = 0
        while len(self._blocks) > 1 and sum(map(_size, self._blocks)) > _MAX_COLLAPSED_CHARS:
            self._blocks.popleft()

    def unfold(self) -> Block | None:
        """Return the next block, or None if there are no more."""
        if self._next >= len(self._blocks):
            return None
        self._next += 1
        return self._blocks[-self._next]


class TurnView:
    """View of the events of a turn.

    Call `take` for every event, `tick` about ten times a second, and `end` when the turn is over.
    `unanswered`: text of undelivered answers that an earlier view on this screen has shown.
    """

    def __init__(self, screen: Screen, unanswered: str = "") -> None:
        self._screen = screen
        self.footer = Footer(screen)
        # Streamed texts of the last turns: a delivery may arrive after the next turn has begun.
        self._spoken_texts: deque[str] = deque([unanswered], maxlen=_MAX_TURNS)
        self._is_resumed = bool(unanswered)
        self.unanswered = unanswered
        self._earlier_text = ""
        self._errors: deque[str] = deque(maxlen=_MAX_TURNS)
        self._turn = TurnPresenter()
        self._collapsed = CollapsedBlocks()
        self._reset()

    def _reset(self) -> None:
        self._turn.clear()
        self._rendered_block: tuple[tuple[str, int], list[str]] = (("", 0), [])
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
        block = self._collapsed.unfold()
        if block is not None:
            self._flush()
            self._screen.print(renderables.render_whole(block))
            self._screen.print()
        return block is not None

    def take(self, event: WatchEvent) -> None:
        self.footer.take(event)
        match event:
            case Delivered():
                self._deliver(event)
                return
            case events.TextDelta(text=text):
                self._spoken_texts[-1] += text
                self.unanswered += text
            case events.SessionStart():
                self._spoken_texts.append("")
            case events.IterationStart():
                self._earlier_text = self._spoken_texts[-1]
            case events.Retry():
                self._spoken_texts[-1] = self._earlier_text
            case events.Error(message=message):
                self._errors.append(message)
        for block in self._turn.take(event):
            self._print(block)
        if isinstance(event, events.Done):
            self._close_turn(event)

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
            # The choices need a separate line, because only a live screen has a footer.
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

    def _print(self, block: Block) -> None:
        match block.kind:
            case "answer":
                self._print_answer(block.text)
            case "call" | "thought":
                self._print_collapsed(block)
            case "note" if not block.mark:
                # The usage of the turn.
                self.say(f"{seconds(self.footer.worked_s)} · {block.text}")
            case "note":
                self._screen.print(renderables.note(block))
            case "verdict":
                self.say(f"  {block.text}")
            case "step" | "subagent":
                pass  # The tail shows the current step of each sub-agent.

    def _print_collapsed(self, block: Block) -> None:
        if self._last == "text":
            self._screen.print()
        if block.diff is not None and block.diff == self._shown_diff:
            block = replace(block, diff=None)
        self._collapsed.add(block)
        hint = renderables.HINT if self._screen.live and block.kind == "call" else ""
        self._screen.print(renderables.render(block, hint))
        self._last = "beside"

    def _close_turn(self, done: events.Done) -> None:
        if done.result.stopped == "cancelled":
            # The delivery reports this as well, but perhaps after the next turn has begun.
            self._spoken_texts.append(t(STOPPED))
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
            self._print_answer(block)
        if delivered.last:
            self._screen.print()
            self._last = None

    def _flush(self) -> None:
        """Print the unfinished part of the answer permanently."""
        for block in self._turn.finish():
            self._print_answer(block.text)

    def _print_answer(self, text: str) -> None:
        if self._last is not None:
            self._screen.print()
        self._screen.print_block(renderables.markdown(text))
        self._last = "text"

    def _tail(self) -> list[str]:
        lines: list[str] = []
        is_thinking = False
        for block in self._turn.live():
            is_thinking |= block.kind == "thought"
            lines += self._live_lines(block)
        for line in self._printed.latest:
            lines += self._screen.render(Text(line, no_wrap=True))[:1]
        room = max(1, self._screen.rows - 4)
        return [*lines[-room:], *self.footer.lines(thinking=is_thinking)]

    def _live_lines(self, block: Block) -> list[str]:
        match block.kind:
            case "thought":
                return self._screen.render(Text(block.text, "dim italic"))[-3:]
            case "answer":
                tail = self._shortened_tail(block.text)
                return ["", *self._set(tail)] if tail else []
            case "call" if self.footer.approval is None:
                lines = self._screen.render(renderables.call_title(block))[:2]
                for line in block.lines:
                    lines += self._screen.render(Text(f"    {line}", "dim", no_wrap=True))[:1]
                return lines
            case "subagent" if self.footer.approval is None:
                return self._screen.render(renderables.subagent(block, spinner()))[:1]
        return []

    def _set(self, tail: str) -> list[str]:
        """Return the tail as rows, rendered again only after a change of text or window."""
        key = (tail, self._screen.console.width)
        if self._rendered_block[0] != key:
            self._rendered_block = (key, self._screen.render_block(renderables.markdown(tail)))
        return self._rendered_block[1]

    def _shortened_tail(self, tail: str) -> str:
        """Return the visible end of the tail with the lines needed to render it."""
        lines = tail[-_TAIL_CHARS:].split("\n")
        if len(lines) <= self._screen.rows and len(tail) <= _TAIL_CHARS:
            return tail
        visible = lines[-self._screen.rows :]
        if (opening := self._turn.answer.open_fence) is not None:
            return "\n".join([opening, *visible])
        head = tail.split("\n", 2)[:2]
        if len(head) == 2 and _TABLE_RULE.fullmatch(head[1]):
            return "\n".join([*head, *visible[2:]])
        # Indented text belongs to a line at the margin.
        first = next((n for n, line in enumerate(visible) if line[:1].strip()), 0)
        return "\n".join(visible[first:])


def _size(block: Block) -> int:
    return len(block.text) + len(block.diff or "")


def _bare(text: str) -> str:
    """Strip the parts of a text that may differ between stream and delivery."""
    return _BESIDE_WORDS.sub("", text)


def _paragraphs(text: str) -> list[str]:
    blocks = MarkdownBlocks()
    return [block for block in [*blocks.feed(text), blocks.finish()] if block]
