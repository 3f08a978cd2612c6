"""Presenter of a running turn: its events become blocks, final or live."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent import events
from agent.text.visible import escape_invisible
from gateway.presenter.blocks import (
    Block,
    call_block,
    note_block,
    step_block,
    step_heading,
    stopped_block,
    subagent_name,
    thought_block,
    usage_block,
    verdict_block,
)
from gateway.presenter.markdown_blocks import MarkdownBlocks
from gateway.presenter.text import LineBuffer, one_line, whole_seconds

_OUTPUT_LINES = 5
_THINKING_CHARS = 600


@dataclass(slots=True)
class _Subagent:
    name: str
    title: str
    began_at: float
    activity: str = ""


class TurnPresenter:
    """Converter of events to blocks.

    `take` yields the blocks that an event completes, `live` the blocks that may still change, in
    display order. `answer` is the unfinished text. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Discard everything that is live."""
        self.discard_text()
        self._running: dict[str, events.ToolStart] = {}
        self._output: dict[str, LineBuffer] = {}
        self._subagents: dict[str, _Subagent] = {}

    def discard_text(self) -> None:
        """Discard the unfinished answer and thought."""
        self.answer = MarkdownBlocks()
        self._thinking = ""

    def discard_call(self, id: str) -> None:
        """Discard a running call whose result is known from another source."""
        self._running.pop(id, None)
        self._output.pop(id, None)

    @property
    def is_thinking(self) -> bool:
        return bool(self._thinking)

    def take(self, event: events.Event) -> Iterator[Block]:
        match event:
            case events.TextDelta(text=text):
                self._thinking = ""
                yield from (Block("answer", block) for block in self.answer.feed(text))
            case events.ThinkingDelta(text=text):
                self._thinking += text
            case events.ThinkingEnd(thinking=text):
                self._thinking = ""
                if text.strip():
                    yield from self.finish()
                    yield thought_block(text)
            case events.IterationStart():
                yield from self.finish()
            case events.Retry():
                self.discard_text()
                yield from self._note(event)
            case events.ToolStart() | events.ToolOutput() | events.ToolResulted():
                yield from self._take_call(event)
            case events.ApprovalAnswered():
                yield verdict_block(event)
            case events.FromAgent():
                self._take_subagent(event)
                if step := step_block(event):
                    yield step
            case events.Done():
                yield from self._close(event)
            case _:
                yield from self._note(event)

    def finish(self) -> Iterator[Block]:
        """Yield the unfinished part of the answer as final."""
        if rest := self.answer.finish():
            yield Block("answer", rest)

    def live(self) -> Iterator[Block]:
        if self._thinking:
            text = escape_invisible(self._thinking[-_THINKING_CHARS:])
            yield Block("thought", text, style="dim", state="running")
        if tail := self.answer.tail:
            yield Block("answer", tail, state="running")
        for id, started in self._running.items():
            output = self._output.get(id)
            yield call_block(started, output=output.latest[-_OUTPUT_LINES:] if output else ())
        for subagent in self._subagents.values():
            yield Block(
                "subagent",
                subagent.activity or subagent.title,
                tool=subagent.name,
                elapsed=whole_seconds(self._clock() - subagent.began_at),
                state="running",
            )

    def _note(self, event: events.Event) -> Iterator[Block]:
        if block := note_block(event):
            yield from self.finish()
            yield block

    def _take_call(
        self, event: events.ToolStart | events.ToolOutput | events.ToolResulted
    ) -> Iterator[Block]:
        match event:
            case events.ToolStart():
                yield from self.finish()
                self._running[event.id] = event
            case events.ToolOutput(id=id, text=text):
                self._output.setdefault(id, LineBuffer(_OUTPUT_LINES)).feed(text)
            case events.ToolResulted():
                yield from self.finish()
                started = self._running.get(event.id)
                self.discard_call(event.id)
                yield call_block(started or events.ToolStart(event.id, event.name, {}), event)

    def _take_subagent(self, report: events.FromAgent) -> None:
        kind = report.event.get("type")
        if kind in ("done", "error"):
            self._subagents.pop(report.number, None)
            return
        subagent = self._subagents.setdefault(
            report.number,
            _Subagent(
                subagent_name(report), escape_invisible(one_line(report.title)), self._clock()
            ),
        )
        if kind == "tool_start":
            subagent.activity = step_heading(report.event)

    def _close(self, done: events.Done) -> Iterator[Block]:
        yield from self.finish()
        for started in self._running.values():
            yield call_block(started, state="stopped")
        self._running.clear()
        self._output.clear()
        if done.result.stopped == "cancelled":
            yield stopped_block()
        if usage := usage_block(done.result.usage):
            yield usage
