"""Status line for the current activity of a turn."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from agent import events
from agent.events import Event
from agent.i18n import t
from agent.tools.traits import LabelPart
from agent.types import ToolKind
from gateway.core import markdown
from gateway.presenter.blocks import call_title

_WHAT_CHARS = 48
# Shorter durations are not shown.
_MIN_ELAPSED_S = 10


class ActivityStatus:
    """Current activity of a turn, derived from its events.

    `line` is empty while the model writes text. `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls: dict[str, str] = {}
        self._else = t("Thinking")
        self._since = clock()

    def feed(self, event: Event) -> None:
        match event:
            case events.ToolStart(id_, name, arguments, kind, label, quiet) if not quiet:
                if not self._calls:
                    self._since = self._clock()
                self._calls[id_] = call_markdown(name, arguments, kind, label)
            case events.ToolResulted(id_):
                self._calls.pop(id_, None)
                self._now(t("Thinking"))
            case events.Retry(_, attempt, most) if most > 1:
                self._now(t("Retrying ({attempt} of {most})", attempt=attempt, most=most))
            case events.IterationStart() | events.ThinkingDelta() | events.Retry():
                self._now(t("Thinking"))
            case events.TextDelta():
                self._now("")

    def set_paused(self, sentence: str) -> None:
        """Show the sentence that explains what the paused turn is waiting for."""
        self._calls.clear()
        self._now(sentence)

    @property
    def line(self) -> str:
        """Activity as one line of markdown."""
        texts = list(self._calls.values()) or [self._else]
        if not texts[0]:
            return ""
        more = f" (+{len(texts) - 1})" if len(texts) > 1 else ""
        return f"⏳ {texts[0]}{more}{_elapsed(self._clock() - self._since)}"

    def _now(self, text: str) -> None:
        if text != self._else and not self._calls:
            self._since = self._clock()
        self._else = text


def call_markdown(tool: str, arguments: Mapping[str, Any], kind: ToolKind, label: str) -> str:
    """Describe a tool call briefly, in markdown."""
    return "".join(map(_quoted, call_title(tool, arguments, kind, label)))


def _quoted(part: LabelPart) -> str:
    if not part.argument:
        return part.text
    # A query may contain secrets, and everyone in a chat sees it.
    text = (urlsplit(part.text).hostname or part.text) if part.argument == "url" else part.text
    return code(text, keep_end=part.argument == "path")


def code(text: str, *, keep_end: bool = False) -> str:
    """Return the text as inline code, shortened to fit a line.

    `keep_end` shortens at the start, because the end of a path is more informative.
    """
    text = markdown.join_lines(text)
    if len(text) > _WHAT_CHARS:
        text = f"…{text[1 - _WHAT_CHARS :]}" if keep_end else f"{text[: _WHAT_CHARS - 1]}…"
    return markdown.code(text)


def _elapsed(seconds: float) -> str:
    """Return the elapsed time in coarse steps, because each change is a message."""
    if seconds < _MIN_ELAPSED_S:
        return ""
    if seconds < 60:
        return " · " + t("{n} s", n=int(seconds) // 10 * 10)
    return " · " + t("{n} min", n=int(seconds) // 60)
