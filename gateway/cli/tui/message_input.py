"""Message input: Enter sends, Up and Down recall earlier messages, Tab completes."""

from collections.abc import Callable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document
from textual import events
from textual.message import Message
from textual.widgets import TextArea

from gateway.cli.console.input.completion import Completions
from gateway.cli.console.input.history import ConsoleHistory
from gateway.cli.console.input.pastes import Pastes
from gateway.core.messages import QueueMode

_NEW_LINE = ("ctrl+j", "alt+enter", "shift+enter")
_MOST_OFFERED = 8
# Characters of words that textual does not count as printable: joiners and no-break spaces.
_TYPED = frozenset("\u200c\u200d\u00a0\u202f")


class MessageInput(TextArea):
    """Text area that posts `Sent` with a message and `Offered` with the completions for Tab."""

    class Sent(Message):
        """Message of the person; `queue` selects its handling during a running turn."""

        def __init__(self, text: str, pasted: list[tuple[int, int]], queue: QueueMode) -> None:
            super().__init__()
            self.text = text
            self.pasted = pasted
            self.queue: QueueMode = queue

    class Offered(Message):
        def __init__(self, choices: Sequence[Completion], at: int) -> None:
            super().__init__()
            self.choices = choices
            self.at = at

    def __init__(
        self,
        history: ConsoleHistory,
        completions: Completions,
        pastes: Pastes,
        is_turn_running: Callable[[], bool],
    ) -> None:
        super().__init__(soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False)
        self._history = history
        self._completions = completions
        self.pastes = pastes
        self._is_turn_running = is_turn_running
        self._earlier: list[str] = []
        # Position in the earlier messages; -1 is the current draft.
        self._place = -1
        self._draft = ""
        self._offered: list[Completion] = []
        self._offer_at = 0

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if key == "enter":
            self._take(event)
            self._send("steer")
        elif key == "tab" and self._is_turn_running() and not self._offered and self.text.strip():
            self._take(event)
            self._send("queue")
        elif key in _NEW_LINE:
            self._take(event)
            self.insert("\n")
        elif key == "ctrl+underscore":
            # Ctrl-Z, which text areas use for this, suspends the program.
            self._take(event)
            self.undo()
        elif event.character in _TYPED:
            self._take(event)
            self.insert(event.character)
        elif key == "tab":
            self._take(event)
            await self._complete()
        elif key == "up" and self.cursor_at_first_line and not self._offered:
            self._take(event)
            self._recall(1)
        elif key == "down" and self.cursor_at_last_line and not self._offered:
            self._take(event)
            self._recall(-1)
        elif key in ("up", "down") and self._offered:
            self._take(event)
            self._offer_at = (self._offer_at + (1 if key == "down" else -1)) % len(self._offered)
            self.post_message(self.Offered(self._offered, self._offer_at))
        elif key == "escape" and self._offered:
            self._take(event)
            self._offer([])

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.insert(self.pastes.fold(event.text.replace("\r\n", "\n").replace("\r", "\n")))

    async def on_text_area_changed(self) -> None:
        """Update the completions while the person types."""
        document = self._document()
        is_open = self.has_focus and self._completions.may_follow(document)
        self._offer(await self._choices(document) if is_open else [])

    def _document(self) -> Document:
        text = self.text
        row, column = self.cursor_location
        lines = text.split("\n")
        return Document(text, sum(len(line) + 1 for line in lines[:row]) + column)

    async def _choices(self, document: Document) -> list[Completion]:
        choices: list[Completion] = []
        async for choice in self._completions.get_completions_async(document, CompleteEvent()):
            choices.append(choice)
            if len(choices) == _MOST_OFFERED:
                break
        return choices

    def _offer(self, choices: list[Completion]) -> None:
        if choices or self._offered:
            self._offered, self._offer_at = choices, 0
            self.post_message(self.Offered(choices, 0))

    async def _complete(self) -> None:
        if not self._offered:
            self._offer(await self._choices(self._document()))
        if not self._offered:
            return
        choice = self._offered[self._offer_at]
        row, column = self.cursor_location
        # A completion never spans more than one line.
        self.replace(choice.text, (row, column + choice.start_position), (row, column))

    def _send(self, queue: QueueMode) -> None:
        text = self.text
        if not text.strip():
            return
        whole = self.pastes.whole(text)
        self._history.store_string(text)
        self._earlier.insert(0, text)
        self._place = -1
        self.clear()
        self.post_message(self.Sent(whole, self.pastes.spans(whole), queue))

    def _recall(self, step: int) -> None:
        if not self._earlier:
            self._earlier = list(self._history.load_history_strings())
        place = self._place + step
        if not -1 <= place < len(self._earlier):
            return
        if self._place == -1:
            self._draft = self.text
        self._place = place
        self.text = self._draft if place == -1 else self._earlier[place]
        self.move_cursor(self.document.end)

    def _take(self, event: events.Key) -> None:
        event.prevent_default()
        event.stop()
