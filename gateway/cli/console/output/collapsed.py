"""Outputs that were shown in shortened form and can be expanded."""

from collections import deque
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from agent import events
from gateway.cli.console.output.diff import diff, is_long
from gateway.cli.console.output.text import leaves_out, started_line, without_ansi

THOUGHT_LINES = 8
_MOST_OUTPUTS = 50
_MOST_CHARS = 2_000_000
HINT = " (Ctrl-O)"


class CollapsedOutputs:
    """Recent results and thoughts that were not shown in full.

    `unfold` expands the most recent one; each further call goes one back.
    """

    def __init__(self) -> None:
        self._outputs: deque[tuple[int, Callable[[], RenderableType]]] = deque(maxlen=_MOST_OUTPUTS)
        self._next = 0

    def keep(self, started: events.ToolStart | None, result: events.ToolResulted) -> None:
        if not (leaves_out(result) or result.file or is_long(result.diff or "")):
            return
        size = len(result.content) + len(result.diff or "")
        self._put(size, lambda: _render_result(started, result))

    def keep_thought(self, text: str) -> None:
        if len(lines := without_ansi(text).strip().split("\n")) > THOUGHT_LINES:
            self._put(len(text), lambda: Text("✻ " + "\n  ".join(lines), "dim italic"))

    def unfold(self) -> RenderableType | None:
        """Return the next output, or None if there are no more."""
        if self._next >= len(self._outputs):
            return None
        self._next += 1
        return self._outputs[-self._next][1]()

    def _put(self, size: int, render: Callable[[], RenderableType]) -> None:
        self._outputs.append((size, render))
        self._next = 0
        while len(self._outputs) > 1 and sum(size for size, _ in self._outputs) > _MOST_CHARS:
            self._outputs.popleft()


def _render_result(started: events.ToolStart | None, result: events.ToolResulted) -> RenderableType:
    head = Text(f"⏷ {started_line(started) if started else result.name}", "bold")
    body = Text("\n".join(f"  {line}" for line in without_ansi(result.content).splitlines()))
    more = [diff(result.diff, None)] if result.diff else []
    if result.file:
        more.append(Text(f"  {result.file}", "dim"))
    return Group(head, body, *more)
