"""Footer of a turn: available keys, typed text and status line."""

import time
from collections.abc import Callable

from rich.padding import Padding
from rich.text import Text

from agent.events import ApprovalAsked
from agent.i18n import t
from agent.text.visible import escape_invisible
from gateway.cli.console.output.approval_text import choices_text, time_left, words_hint
from gateway.cli.console.output.screen import Screen, break_lines
from gateway.cli.console.output.status_line import StatusLine
from gateway.core.messages import MessageOptions
from gateway.core.records import WatchEvent
from gateway.presenter.text import whole_seconds

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 10


class Footer:
    """Footer below the live output.

    `typed_text` is the current input line, `approval` the question that the keys answer.
    `count_queued` returns the number of messages waiting for the running turn. `clock` returns
    seconds.
    """

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self.status: StatusLine | None = None
        self.typed_text = ""
        self.approval: ApprovalAsked | None = None
        self.asks_words = False
        self.count_queued: Callable[[], int] = int
        self._asked_at = 0.0
        self._began_at = self._clock()
        self._is_armed: Callable[[], bool] = bool

    def begin(self) -> None:
        """Start or restart the timer."""
        self._began_at = self._clock()

    @property
    def worked_s(self) -> float:
        """Working time in seconds, without the time that a question was open."""
        until = self._asked_at if self.approval else self._clock()
        return max(0.0, until - self._began_at)

    def ask(self, approval: ApprovalAsked, is_armed: Callable[[], bool]) -> None:
        self.approval = approval
        self.asks_words = False
        self._asked_at = self._clock()
        self._is_armed = is_armed

    def settle(self) -> None:
        """Close the question after an answer or a withdrawal."""
        if self.approval is not None:
            self._began_at += self._clock() - max(self._asked_at, self._began_at)
            self.approval = None

    def take(self, event: WatchEvent) -> None:
        if self.status is not None:
            self.status.take(event)

    def use_options(self, options: MessageOptions) -> None:
        if self.status is not None:
            self.status.use_options(options)

    def lines(self, *, thinking: bool) -> list[str]:
        work: Padding | Text = self._choices() if self.approval else _work(self.worked_s, thinking)
        lines = self._screen.render(work)
        if self.typed_text:
            lines += self._screen.render(Text(f"› {self._shown_text()}"))[-3:]
        if self.status is not None and self.approval is None:
            line = self.status.line(self._screen.console.width, self.count_queued())
            lines += self._screen.render(Text(f"  {line}", "dim", no_wrap=True))[:1]
        return lines

    def _shown_text(self) -> str:
        query = self.approval.request.server_question if self.approval and self.asks_words else None
        if query is not None and query.is_secret:
            return "•" * len(self.typed_text)
        return escape_invisible(self.typed_text)

    def _choices(self) -> Padding:
        assert self.approval is not None
        if self.asks_words:
            return self._indented(Text(words_hint(self.approval), "bold"))
        left_s = self.approval.expires_s
        if left_s is not None:
            left_s = max(0.0, left_s - (self._clock() - self._asked_at))
        choices = f"{t('Enter sends the line below, then:')} " if self.typed_text else ""
        # Keys pressed too early were meant for something else; the style shows when keys count.
        style, note = "dim", "  (…)"
        if self._is_armed():
            style, note = "bold", time_left(left_s)
        text = Text.assemble(choices, (choices_text(self.approval), style), (note, "dim"))
        return self._indented(text)

    def _indented(self, text: Text) -> Padding:
        """Return the text with each line indented like the question."""
        width = max(20, self._screen.console.width - 1) - 2
        return Padding(break_lines(text, width), (0, 0, 0, 2), expand=False)


def spinner() -> str:
    return _SPINNER[int(time.monotonic() * _FRAMES_A_SECOND) % len(_SPINNER)]


def _work(worked_s: float, thinking: bool) -> Text:
    took = whole_seconds(worked_s)
    text = t(
        "thinking {time} · Ctrl-C stops" if thinking else "working {time} · Ctrl-C stops", time=took
    )
    return Text.assemble((spinner(), "cyan"), (f" {text}", "dim"))
