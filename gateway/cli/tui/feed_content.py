"""Content of a tab's feed: final entries and the live parts of the running turn.

A stored message replaces its streamed text.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from agent import events
from agent.i18n import t
from agent.text.visible import escape_invisible
from agent.types import Message, Thinking
from gateway.cli.console.output import renderables
from gateway.core.records import (
    Delivered,
    HistoryReset,
    MessageStored,
    SessionChanged,
    SessionEvent,
    SessionIdle,
    TurnStored,
)
from gateway.presenter.blocks import STOPPED, Block, thought_block
from gateway.presenter.markdown_blocks import MarkdownBlocks
from gateway.presenter.stored import StoredCalls
from gateway.presenter.text import LineBuffer
from gateway.presenter.turn import TurnPresenter

# Length of the prefix for comparing a delivered text with the turn's stored replies.
_COMPARED_CHARS = 200
_MAX_CALLS = 500


@dataclass(slots=True, eq=False)
class FeedEntry:
    """Section of the feed.

    `text` is for search, copying and height estimates; `render` builds the visible form on demand.
    An entry that is `joined` has no empty line above it.
    """

    text: str
    render: Callable[[], RenderableType]
    joined: bool = False


class FeedContent:
    """Builder of the feed from the events of a session (`take`).

    `entries` only grow; a change of `edition` means that they were reset.
    """

    def __init__(self) -> None:
        self.edition = 0
        self.calls: deque[Block] = deque(maxlen=_MAX_CALLS)
        self.approvals: list[events.ApprovalAsked] = []
        # Turns and checks of a goal follow each other.
        self.has_goal = False
        self._reset()

    def _reset(self) -> None:
        self.edition += 1
        self.seq = 0
        self.entries: list[FeedEntry] = []
        self.approvals.clear()
        self.calls.clear()
        self.is_running = False
        self._stored = StoredCalls()
        self._shown_results: set[str] = set()
        self._replies: list[str] = []
        # Lines about a turn that follow its last message.
        self._closing: list[FeedEntry] = []
        self._printed = LineBuffer()
        self._turn = TurnPresenter()
        self._draft: list[FeedEntry] = []

    def _forget_live(self) -> None:
        self._turn.clear()
        self._draft.clear()

    def begin_again(self) -> None:
        """Discard the live parts, because the events repeat after the last stored message."""
        self.approvals.clear()
        self._forget_live()

    def take(self, event: SessionEvent) -> None:
        match event:
            case MessageStored():
                self._take_message(event)
            case HistoryReset():
                self._reset()
            case SessionChanged():
                pass  # this concerns only the list of sessions
            case SessionIdle() | TurnStored():
                self.is_running = False
                self._forget_live()
                self._settle_turn()
            case Delivered():
                self._deliver(event)
            case events.GoalChanged():
                self.has_goal = event.state == "active"
                self._take_turn(event)
            case events.ApprovalAsked():
                if all(event.nonce != approval.nonce for approval in self.approvals):
                    self.approvals.append(event)
            case _:
                self._take_turn(event)

    def live(self) -> Sequence[FeedEntry]:
        """Return the entries that may still change, in display order."""
        return [*self._draft, *map(_live_entry, self._turn.live())]

    def say(self, text: str, style: str = "dim") -> None:
        """Add a line from the screen itself."""
        self.entries.append(_line(text, style))

    def show_output(self, text: str) -> None:
        """Show output of a command that the person runs with `!`; `text` may be cut anywhere."""
        self._print(self._printed.feed(text))

    def close_output(self, ending: str | None) -> None:
        self._print(self._printed.finish())
        if ending is not None:
            self.say(f"  {ending}")

    def _print(self, lines: Iterable[str]) -> None:
        if text := "\n".join(f"  {line}" for line in lines):
            self.entries.append(_line(text, ""))

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
            self._forget_text()
            self._take_reply(message)

    def _take_reply(self, message: Message) -> None:
        thoughts = (part.text for part in message.content if isinstance(part, Thinking))
        self.entries += (_entry(thought_block(text)) for text in thoughts if text.strip())
        if text := message.text.strip():
            self._replies.append(text)
            self.entries += answer_entries(text)
        # Vendors reuse the ids of calls in the next reply.
        self._shown_results.difference_update(call.id for call in self._stored.start(message))

    def _take_result(self, message: Message) -> None:
        """Show a result of a turn that was not followed."""
        self._turn.discard_call(message.tool_call_id or "")
        call = self._stored.end(message)
        if call is not None and call.id not in self._shown_results:
            self._add_call(call)

    def _take_turn(self, event: events.Event) -> None:
        match event:
            case (
                events.SessionStart()
                | events.IterationStart()
                | events.TextDelta()
                | events.ToolStart()
            ):
                self.is_running = True
            case events.Retry():
                self._draft.clear()
            case events.Done():
                self.is_running = False
                self.approvals.clear()
        for block in self._turn.take(event):
            match block.kind:
                case "answer" | "thought":
                    self._draft.append(_entry(block))
                case "call" if block.state != "stopped":
                    # The result of a stopped call is among the messages.
                    self._shown_results.add(block.id)
                    self._add_call(block)
                case "note" if isinstance(event, events.Done):
                    # The last message is not stored yet, and its place is above these lines.
                    self._closing.append(_entry(block))
                case "note":
                    self.entries.append(_entry(block))
                case "verdict" if isinstance(event, events.ApprovalAnswered):
                    self._close_approval(event, block.text)

    def _add_call(self, block: Block) -> None:
        self.calls.append(block)
        self.entries.append(_entry(block))

    def _close_approval(self, event: events.ApprovalAnswered, verdict: str) -> None:
        approval = next(
            (candidate for candidate in self.approvals if candidate.nonce == event.nonce), None
        )
        if approval is not None:
            self.approvals.remove(approval)
            verdict = f"{approval.request.tool}: {verdict}"
        self.say(f"? {verdict}")

    def _settle_turn(self) -> None:
        self.entries += self._closing
        self._closing.clear()

    def _deliver(self, event: Delivered) -> None:
        """Show a text that is not in the messages, such as the answer of a command."""
        if any(text[:_COMPARED_CHARS] in event.text for text in self._replies):
            return
        if event.text.strip() == t(STOPPED):
            return
        self.entries += answer_entries(event.text)

    def _forget_text(self) -> None:
        self._turn.discard_text()
        self._draft.clear()


def answer_entries(text: str) -> list[FeedEntry]:
    """Return an answer as one entry per block, so that only visible blocks are rendered."""
    parts = MarkdownBlocks()
    return [_entry(Block("answer", part)) for part in (*parts.feed(text), parts.finish()) if part]


def _question(text: str) -> FeedEntry:
    clean = escape_invisible(text.strip())
    return FeedEntry(clean, lambda: Text(f"› {clean}", "bold"))


def _line(text: str, style: str) -> FeedEntry:
    clean = escape_invisible(text)
    return FeedEntry(clean, lambda: Text(clean, style), joined=True)


def _entry(block: Block) -> FeedEntry:
    text = block.marked_text if block.kind == "note" else block.text
    if block.kind == "call":
        text = f"{block.heading}\n{text}"
    return FeedEntry(text, lambda: renderables.render(block), joined=block.kind == "note")


def _live_entry(block: Block) -> FeedEntry:
    match block.kind:
        case "call":
            output = "\n".join(f"    {line}" for line in block.lines)
            text = f"{block.heading}\n{output}" if output else block.heading
            head = renderables.call_title(block)
            return FeedEntry(text, lambda: Text.assemble(head, f"\n{output}" if output else ""))
        case "subagent":
            line = renderables.subagent(block, "●")
            return FeedEntry(line.plain, lambda: line, joined=True)
        case "thought":
            return FeedEntry(block.text, lambda: Text(block.text, "dim italic"))
    return _entry(block)
