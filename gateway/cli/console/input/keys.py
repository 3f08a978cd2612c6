"""What the keyboard says while a turn runs: answers, a stop, and the next message."""

from collections.abc import Callable
from typing import Literal, Protocol

Key = Literal[
    "text", "enter", "newline", "backspace", "word", "line", "escape", "interrupt", "unfold"
]
OnKey = Callable[[Key, str], None]
_LIMIT_CHARS = 100_000


class KeyHandler(Protocol):
    """Whoever acts on the keys; `answer` returns whether it wanted the key.

    `take_back` is the letter that it wanted and that begins a word after all.
    """

    def answer(self, key: str) -> bool: ...
    def take_back(self) -> str: ...
    def send(self, text: str) -> None: ...
    def interrupt(self) -> None: ...
    def unfold(self) -> None: ...
    def typed(self, text: str) -> None: ...


class TypeAhead:
    """A line that is typed while something else fills the screen.

    Enter sends it; what is not sent when the turn ends is `text`, the beginning of the next prompt.
    """

    def __init__(self, taker: KeyHandler) -> None:
        self._taker = taker
        self.text = ""

    def press(self, key: Key, text: str) -> None:
        if key == "interrupt":
            self._taker.interrupt()
            return
        if key == "unfold":
            self._taker.unfold()
            return
        if key not in ("enter", "escape"):
            self.text += self._taker.take_back()
        if self._answered(key, text):
            return
        if key == "escape":
            self._taker.interrupt()
            return
        self._edit(key, text)
        self._taker.typed(self.text)

    def _edit(self, key: Key, text: str) -> None:
        match key:
            case "enter":
                sent, self.text = self.text, ""
                if sent.strip():
                    self._taker.send(sent)
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

    def _answered(self, key: Key, text: str) -> bool:
        letter = {"escape": "\x1b", "enter": "\r", "text": text}.get(key, "")
        # Whoever is in the middle of a sentence is not answering.
        return not self.text and len(letter) == 1 and self._taker.answer(letter)
