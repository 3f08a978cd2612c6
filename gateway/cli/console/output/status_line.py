"""Status line: model, mode, goal, window usage, cost, queued messages, background tasks, folder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from agent import events
from agent.i18n import plural, t
from agent.serialization import event_to_json
from agent.text.visible import escape_invisible
from agent.types import Usage
from gateway.control.service import Service
from gateway.core.messages import MessageOptions
from gateway.core.records import SessionEvent
from gateway.presenter.text import home_relative, one_line

_BAR = 8
# Minimum width in columns for the bar of the gauge.
_WIDE = 60
_FULL, _FREE = "█", "░"
Window = Callable[[str], int]


class StatusLine:
    """Status line of a conversation.

    Call `take` for each event and `refresh` between turns; `line` returns the text for one row.
    `options` of the command line take precedence over the conversation's own settings, except for
    the mode that is stored with it; `mode` and `model` are the defaults. `window` returns the
    context window of a model in tokens, `title` its display name.
    """

    def __init__(
        self,
        options: MessageOptions,
        model: str,
        mode: str,
        window: Window,
        title: Callable[[str], str] = str,
    ) -> None:
        self._options = options
        self._model, self._mode = model, mode
        self._window, self._title = window, title
        self._state: Mapping[str, Any] = {}
        self._background: Sequence[str] = ()
        self._turn = Usage()
        self._used = 0
        self._cost: float | None = None
        # As in the event `goal`; None without one.
        self._goal: Mapping[str, Any] | None = None

    async def refresh(self, service: Service, lane: str) -> None:
        before = self._state.get("session")
        self._state = await service.conversation_status(lane)
        self._cost = self._state["cost_usd"]
        self._goal = self._state.get("goal")
        session = self._state["session"]
        self._background = await service.background_tasks(session) if session else ()
        if before is not None and session != before:
            self._used = 0

    def use_options(self, options: MessageOptions) -> None:
        """Replace the options after a command of the conversation has overridden one."""
        self._options = options

    def take(self, event: SessionEvent) -> None:
        match event:
            # Do not reset at the start: a turn that waited for an answer starts again and continues
            # its count.
            case events.Done():
                self._turn = Usage()
            case events.UsageReport(usage=usage, session_cost_usd=cost):
                # Input and output of the last call are the input of the next call.
                self._used = usage.input - self._turn.input + usage.output - self._turn.output
                self._turn = usage
                self._cost = cost if cost is not None else self._cost
            case events.Compacted(after=after):
                self._used = after
            case events.GoalChanged(state="met" | "none"):
                self._goal = None
            case events.GoalChanged():
                self._goal = event_to_json(event)

    @property
    def model(self) -> str:
        return str(self._options.model or self._state.get("model") or self._model)

    @property
    def mode(self) -> str:
        if self._options.full_access is not None:
            return t("full access")
        return str(self._state.get("mode") or self._options.first_mode or self._mode)

    @property
    def folder(self) -> str:
        """Folder of the conversation, '' without one."""
        folder = self._options.folder
        path = home_relative(folder.path) if folder else str(self._state.get("folder") or "")
        return escape_invisible(one_line(path))

    def line(self, columns: int, queued: int = 0) -> str:
        """Return as many parts as fit, most important first.

        `queued` is the number of messages typed since `refresh`.
        """
        parts: list[str] = []
        room = columns - 2
        for part in self._parts(columns, queued):
            if part and cell_len(part) + 3 <= room:
                room -= cell_len(part) + 3
                parts.append(part)
        return " · ".join(parts)

    @property
    def background(self) -> Sequence[str]:
        """Background tasks of the conversation."""
        return self._background

    def lines(self) -> list[str]:
        """Return all parts as separate lines, for a screen with enough room."""
        parts = self._parts(_WIDE, 0)
        names = (
            *(t("model"), t("mode"), t("goal"), t("window"), t("cost"), t("waiting"), t("tasks")),
            t("folder"),
        )
        return [f"{name}: {part}" for name, part in zip(names, parts, strict=True) if part]

    def _parts(self, columns: int, queued: int) -> list[str]:
        queued_count = queued or int(self._state.get("waiting", 0))
        return [
            escape_invisible(one_line(self._title(self.model)))[:40],
            self.mode,
            self._goal_text(),
            self._gauge(columns),
            f"${self._cost:.2f}" if self._cost else "",
            t("{n} queued", n=queued_count) if queued_count else "",
            self._runs(),
            self.folder,
        ]

    def _gauge(self, columns: int) -> str:
        window = self._window(self.model)
        if not self._used or not window:
            return ""
        share = min(1.0, self._used / window)
        if columns < _WIDE:
            return f"{share:.0%}"
        full = round(share * _BAR)
        used = f"{self._used / 1000:.1f}k" if self._used >= 1000 else str(self._used)
        bar = _FULL * full + _FREE * (_BAR - full)
        return t("{bar} {share:.0%} of {window} ({used})", bar=bar, share=share, used=used,
                 window=f"{window // 1000}k")  # fmt: skip

    def _goal_text(self) -> str:
        if self._goal is None:
            return ""
        text = f"🎯 {self._goal['turns']}/{self._goal['max_turns']}"
        return f"{text} {t('paused')}" if self._goal["state"] == "paused" else text

    def _runs(self) -> str:
        count = len(self._background)
        return plural(count, "{n} in the background", "{n} in the background") if count else ""
