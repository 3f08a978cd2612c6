"""Content of a tab's feed: final entries and the live parts of the running turn.

A stored message replaces its streamed text.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from agent import events
from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_invisible
from agent.turn.tool_catalog import started_event
from agent.types import Message, Thinking, ToolCall
from gateway.cli.console.output import renderables
from gateway.cli.console.output.approval_text import server_verdict, verdict
from gateway.cli.console.output.line_buffer import LineBuffer
from gateway.cli.console.output.markdown_blocks import MarkdownBlocks
from gateway.cli.console.output.subagent_lines import SubagentLines
from gateway.cli.console.output.text import event_line, started_line
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionChanged,
    SessionEvent,
    SessionIdle,
    TurnStored,
)

Kind = Literal["user", "answer", "thought", "tool", "note"]
_OUTPUT_LINES = 5
_THINKING_CHARS = 600
# Length of the prefix for comparing a delivered text with the turn's stored replies.
_COMPARED_CHARS = 200
_MOST_CALLS = 500


@dataclass(slots=True, eq=False)
class FeedEntry:
    """Section of the feed.

    `text` is for search, copying and height estimates; `render` builds the visible form on demand.
    An entry that is `joined` has no empty line above it.
    """

    kind: Kind
    text: str
    render: Callable[[], RenderableType]
    joined: bool = False


@frozen
class CallRecord:
    """Tool call and its result, None while it runs."""

    started: events.ToolStart
    result: events.ToolResulted | None = None


class FeedContent:
    """Builds the feed from the events of a session (`take`).

    `entries` only grow; a change of `edition` means that they were reset.
    """

    def __init__(self) -> None:
        self.edition = 0
        self.calls: deque[CallRecord] = deque(maxlen=_MOST_CALLS)
        self.approvals: list[events.ApprovalAsked] = []
        self._reset()

    def _reset(self) -> None:
        self.edition += 1
        self.seq = 0
        self.entries: list[FeedEntry] = []
        self.approvals.clear()
        self.calls.clear()
        self.is_running = False
        self._known_calls: dict[str, ToolCall] = {}
        self._shown_results: set[str] = set()
        self._replies: list[str] = []
        # Lines about a turn that follow its last message.
        self._closing: list[FeedEntry] = []
        self._printed = LineBuffer()
        self._forget_live()

    def _forget_live(self) -> None:
        self._blocks = MarkdownBlocks()
        self._draft: list[FeedEntry] = []
        self._thinking = ""
        self._running: dict[str, events.ToolStart] = {}
        self._output: dict[str, LineBuffer] = {}
        self._agents = SubagentLines()

    def begin_again(self) -> None:
        """Discard the live parts: the events repeat from the last stored message on."""
        self.approvals.clear()
        self._forget_live()

    def take(self, event: SessionEvent) -> None:
        match event:
            case MessageStored():
                self._take_message(event)
            case HistoryReset():
                self._reset()
            case SessionChanged():
                pass  # concerns only the list of sessions
            case SessionIdle() | TurnStored():
                self.is_running = False
                self._forget_live()
                self._settle_turn()
            case Delivered():
                self._deliver(event)
            case events.TextDelta() | events.ThinkingDelta() | events.ThinkingEnd():
                self._take_words(event)
            case events.ToolStart() | events.ToolOutput() | events.ToolResulted():
                self._take_tool(event)
            case events.ApprovalAsked() | events.ApprovalAnswered():
                self._take_approval(event)
            case events.FromAgent():
                self._agents.take(event)
            case _:
                self._take_other(event)

    def live(self) -> Sequence[FeedEntry]:
        """Return the entries that may still change, in display order."""
        entries = list(self._draft)
        if self._thinking:
            entries.append(_thinking(self._thinking[-_THINKING_CHARS:]))
        if tail := self._blocks.tail:
            entries.append(_answer(tail))
        for started in self._running.values():
            lines = self._output[started.id].latest if started.id in self._output else ()
            entries.append(_running_call(started, lines))
        entries += (_agent(line) for line in self._agents.lines("●"))
        return entries

    def say(self, text: str, style: str = "dim") -> None:
        """Add a line from the screen itself."""
        self.entries.append(_line("note", text, style))

    def show_output(self, text: str) -> None:
        """Show output of a command that the person runs with `!`; `text` may end anywhere."""
        self._print(self._printed.feed(text))

    def close_output(self, ending: str | None) -> None:
        self._print(self._printed.finish())
        if ending is not None:
            self.say(f"  {ending}")

    def _print(self, lines: Iterable[str]) -> None:
        if text := "\n".join(f"  {line}" for line in lines):
            self.entries.append(_line("note", text, ""))

    def _take_message(self, stored: MessageStored) -> None:
        if stored.seq <= self.seq:
            return
        self.seq = stored.seq
        message = stored.message
        if message.role == "tool":
            self._take_result(message)
        elif message.role == "user" and message.text.strip():
            self._settle_turn()
            self._replies.clear()
            self.entries.append(_question(message.text))
        elif message.role == "assistant":
            self._forget_words()
            self._take_reply(message)

    def _take_reply(self, message: Message) -> None:
        thoughts = (part.text for part in message.content if isinstance(part, Thinking))
        self.entries += (_thought(text) for text in thoughts if text.strip())
        if text := message.text.strip():
            self._replies.append(text)
            self.entries += answer_entries(text)
        # Call ids are unique only within a reply: vendors reuse them.
        self._known_calls = {call.id: call for call in message.tool_calls}
        self._shown_results.difference_update(self._known_calls)

    def _take_result(self, message: Message) -> None:
        """Show a result of a turn that was not followed; its title comes from the call alone."""
        call = self._known_calls.get(message.tool_call_id or "")
        self._running.pop(message.tool_call_id or "", None)
        if call is None or call.id in self._shown_results:
            return
        started = started_event(call)
        result = events.ToolResulted(
            call.id, call.name, message.text, message.is_error, 0.0, kind=started.kind
        )
        self._show_result(CallRecord(started, result))

    def _take_words(
        self, event: events.TextDelta | events.ThinkingDelta | events.ThinkingEnd
    ) -> None:
        match event:
            case events.TextDelta(text=text):
                self.is_running, self._thinking = True, ""
                self._draft += map(_answer, self._blocks.feed(text))
            case events.ThinkingDelta(text=text):
                self._thinking += text
            case events.ThinkingEnd():
                self._thinking = ""

    def _take_tool(self, event: events.ToolStart | events.ToolOutput | events.ToolResulted) -> None:
        match event:
            case events.ToolStart():
                self.is_running = True
                self._running[event.id] = event
            case events.ToolOutput(id=id, text=text):
                self._output.setdefault(id, LineBuffer(_OUTPUT_LINES)).feed(text)
            case events.ToolResulted():
                started = self._running.pop(event.id, None)
                self._output.pop(event.id, None)
                started = started or events.ToolStart(event.id, event.name, {})
                self._shown_results.add(event.id)
                self._show_result(CallRecord(started, event))

    def _show_result(self, record: CallRecord) -> None:
        self.calls.append(record)
        self.entries.append(_outcome(record))

    def _take_approval(self, event: events.ApprovalAsked | events.ApprovalAnswered) -> None:
        question = next(
            (approval for approval in self.approvals if approval.nonce == event.nonce), None
        )
        if isinstance(event, events.ApprovalAsked):
            if question is None:
                self.approvals.append(event)
            return
        if question is not None:
            self.approvals.remove(question)
        words = (
            server_verdict(event.answer)
            if event.server
            else verdict(event.answer, event.words, event.prefix, event.network)
        )
        subject = f"{question.request.tool}: " if question is not None else ""
        self._note(f"? {subject}{words}")

    def _take_other(self, event: events.Event) -> None:
        line = event_line(event)
        match event:
            case events.IterationStart() | events.SessionStart():
                self.is_running = True
            case events.Done():
                self._close_turn(event)
            case events.Retry():
                self._forget_words()
                self._note(f"↻ {line}; {t('partial output discarded')}")
            case _ if line is None:
                return
            case events.Error():
                self._note(f"✗ {line}", "red")
            case events.Signalled():
                self._note(f"■ {line}", "yellow")
            case events.Notice(level="warning"):
                self._note(f"! {line}", "yellow")
            case _:
                self._note(f"· {line}")

    def _close_turn(self, done: events.Done) -> None:
        self.is_running = False
        self.approvals.clear()
        # The last message is not stored yet, and its place is above these lines.
        if done.result.stopped == "cancelled":
            self._closing.append(_line("note", t("⏹ Stopped."), "yellow"))
        usage = done.result.usage
        if usage.input or usage.output:
            tokens = t(
                "{input:,} tokens in, {output:,} out", input=usage.input, output=usage.output
            )
            self._closing.append(_line("note", tokens, "dim"))

    def _settle_turn(self) -> None:
        self.entries += self._closing
        self._closing.clear()

    def _deliver(self, event: Delivered) -> None:
        """Show a text that is not in the messages, such as the answer of a command."""
        if any(text[:_COMPARED_CHARS] in event.text for text in self._replies):
            return
        if event.text.strip() == t("⏹ Stopped."):
            return
        self.entries += answer_entries(event.text)

    def _note(self, text: str, style: str = "dim") -> None:
        self.entries.append(_line("note", text, style))

    def _forget_words(self) -> None:
        self._blocks, self._draft, self._thinking = MarkdownBlocks(), [], ""


def answer_entries(text: str) -> list[FeedEntry]:
    """Return an answer as one entry per block, so that only visible blocks are rendered."""
    blocks = MarkdownBlocks()
    return [_answer(block) for block in (*blocks.feed(text), blocks.finish()) if block]


def _answer(block: str) -> FeedEntry:
    return FeedEntry("answer", block, lambda: renderables.markdown(block))


def _question(text: str) -> FeedEntry:
    clean = escape_invisible(text.strip())
    return FeedEntry("user", clean, lambda: Text(f"› {clean}", "bold"))


def _thought(text: str) -> FeedEntry:
    return FeedEntry("thought", text, lambda: renderables.thought(text))


def _thinking(text: str) -> FeedEntry:
    clean = escape_invisible(text)
    return FeedEntry("thought", clean, lambda: Text(clean, "dim italic"))


def _line(kind: Kind, text: str, style: str) -> FeedEntry:
    clean = escape_invisible(text)
    return FeedEntry(kind, clean, lambda: Text(clean, style), joined=kind == "note")


def _running_call(started: events.ToolStart, lines: Iterable[str]) -> FeedEntry:
    arguments = started_line(started).removeprefix(started.name).strip()
    text = "\n".join(f"    {line}" for line in lines)

    def render() -> RenderableType:
        head = renderables.tool_call(started.name, arguments)
        return Text.assemble(head, f"\n{text}" if text else "")

    return FeedEntry("tool", f"{started.name} {arguments}\n{text}", render)


def _agent(line: Text) -> FeedEntry:
    return FeedEntry("note", line.plain, lambda: line, joined=True)


def _outcome(record: CallRecord) -> FeedEntry:
    result, started = record.result, record.started
    assert result is not None
    text = f"{started_line(started)}\n{result.content}"
    return FeedEntry("tool", text, lambda: renderables.tool_outcome(started, result))
