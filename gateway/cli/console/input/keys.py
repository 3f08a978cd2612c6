"""Keyboard handling while a turn runs: answers, a stop, and the next message."""

from collections.abc import Callable
from typing import Literal, Protocol

from prompt_toolkit.filters import has_completions, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from gateway.cli.console.input.pastes import Pastes

Key = Literal[
    "text",
    "enter",
    "queue",
    "newline",
    "backspace",
    "word",
    "line",
    "escape",
    "interrupt",
    "unfold",
    "suspend",
]

OnKey = Callable[[Key, str], None]

_LIMIT_CHARS = 100_000


class KeyHandler(Protocol):
    """Handler for keys; `answer` returns whether it used the key.

    `take_back` returns a used key that turns out to be the beginning of a word.
    """

    def answer(self, key: str) -> bool: ...
    def take_back(self) -> str: ...
    def send(self, text: str, *, queued: bool = False) -> None: ...
    def interrupt(self) -> None: ...
    def unfold(self) -> None: ...
    def suspend(self) -> None: ...
    def show_typed(self, text: str) -> None: ...


class TypeAhead:
    """Input line that is typed while other work fills the screen.

    Enter sends it immediately, Tab after the running turn. Text that is not sent when the turn ends
    is in `text` and becomes the beginning of the next prompt.
    """

    def __init__(self, taker: KeyHandler) -> None:
        self._handler = taker
        self.text = ""

    def press(self, key: Key, text: str) -> None:
        if key == "interrupt":
            self._handler.interrupt()
            return
        if key == "unfold":
            self._handler.unfold()
            return
        if key == "suspend":
            self._handler.suspend()
            return
        if key not in ("enter", "queue", "escape"):
            self.text += self._handler.take_back()
        if self._send_answer(key, text):
            return
        if key == "escape":
            self._handler.interrupt()
            return
        self._edit(key, text)
        self._handler.show_typed(self.text)

    def _edit(self, key: Key, text: str) -> None:
        match key:
            case "enter" | "queue":
                line, self.text = self.text, ""
                if line.strip():
                    self._handler.send(line, queued=key == "queue")
            case "text":
                self.text = (self.text + text)[:_LIMIT_CHARS]
            case "newline":
                self.text += "\n"
            case "backspace":
                self.text = self.text[:-1]
            case "word":
                self.text = " ".join(self.text.split(" ")[:-1])
            case "line":
                self.text = ""

    def _send_answer(self, key: Key, text: str) -> bool:
        letter = {"escape": "\x1b", "enter": "\r", "text": text}.get(key, "")
        # In the middle of a sentence, a key does not answer a question.
        return not self.text and len(letter) == 1 and self._handler.answer(letter)


def key_bindings(
    pastes: Pastes, unfold: Callable[[], None], suspend: Callable[[], None]
) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        completion = buffer.complete_state and buffer.complete_state.current_completion
        if completion and completion.text.endswith((" ", "/")):
            # The completion is already inserted, and more input follows.
            buffer.complete_state = None
            if completion.text.endswith("/"):
                buffer.start_completion()
        else:
            buffer.validate_and_handle()

    @bindings.add("tab", filter=has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        assert state is not None
        completion = state.current_completion or state.completions[0]
        buffer.apply_completion(completion)
        if completion.text.endswith("/"):
            buffer.start_completion()

    @bindings.add("escape", "enter")
    @bindings.add("c-j", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    @bindings.add("c-o", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        unfold()

    bindings.add("c-z")(lambda _: suspend())

    @bindings.add(Keys.BracketedPaste, filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.fold(plain_lines(event.data)))

    @bindings.add("backspace", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        mark = pastes.mark_before(buffer.document.text_before_cursor)
        buffer.delete_before_cursor(len(mark) or event.arg)

    return bindings


def plain_lines(text: str) -> str:
    """Return a paste with normalised line ends; terminals may send carriage returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
