"""Status line for the current activity of a turn."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from agent import events
from agent.events import Event
from agent.i18n import mark_for_translation, t
from agent.tools.traits import fill_label
from agent.types import ToolKind
from gateway.core import markdown

_WHAT_CHARS = 48
# Shorter durations are not worth showing.
_LONG_S = 10
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|ctest|phpunit|rspec)\b"
    r"|\b(?:npm|pnpm|yarn|bun|go|cargo|make|mix|gradle|mvn|dotnet) (?:run )?(?:test|check)\b"
)
_TESTING = mark_for_translation("Running the tests: {command}")


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
                self._calls[id_] = sentence(name, arguments, kind, label)
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
        """Show the sentence that says what the paused turn waits for."""
        self._calls.clear()
        self._now(sentence)

    @property
    def line(self) -> str:
        """The activity as one line of markdown."""
        texts = list(self._calls.values()) or [self._else]
        if not texts[0]:
            return ""
        more = f" (+{len(texts) - 1})" if len(texts) > 1 else ""
        return f"⏳ {texts[0]}{more}{_elapsed(self._clock() - self._since)}"

    def _now(self, text: str) -> None:
        if text != self._else and not self._calls:
            self._since = self._clock()
        self._else = text


def sentence(name: str, arguments: Mapping[str, Any], kind: ToolKind, label: str) -> str:
    """Describe a tool call in a few words of markdown."""
    if kind == "execute" and _TESTS.search(str(arguments.get("command", ""))):
        label = _TESTING
    return fill_label(label, name, arguments, _quote)


def _quote(argument: str, value: str) -> str:
    if argument == "url":
        value = urlsplit(value).hostname or value
    return code(value, keep_end=argument == "path")


def code(text: str, *, keep_end: bool = False) -> str:
    """Return the text as inline code, shortened to fit a line.

    `keep_end` shortens at the start, because the end of a path says more.
    """
    text = " ".join(text.split())
    if len(text) > _WHAT_CHARS:
        text = f"…{text[1 - _WHAT_CHARS :]}" if keep_end else f"{text[: _WHAT_CHARS - 1]}…"
    return markdown.code(text)


def _elapsed(seconds: float) -> str:
    """Return the elapsed time in coarse steps, because each change is a message."""
    if seconds < _LONG_S:
        return ""
    if seconds < 60:
        return " · " + t("{n} s", n=int(seconds) // 10 * 10)
    return " · " + t("{n} min", n=int(seconds) // 60)
