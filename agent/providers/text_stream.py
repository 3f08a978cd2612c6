"""What a reply says and thinks, as it streams."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.events import ModelEvent, TextDelta, ThinkingDelta, ThinkingEnd
from agent.providers.openai.request import mend
from agent.providers.think_tags import ThinkTagFilter


@dataclass(slots=True)
class DeltaBuffer:
    """Text as it streams; half of a surrogate pair waits for its other half."""

    said: list[str] = field(default_factory=list)
    held: str = ""
    chars: int = 0

    def add(self, text: str) -> str:
        text = self.held + text
        self.held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.held = text[:-1], text[-1]
        text = mend(text)
        self.said.append(text)
        self.chars += len(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self.said) + mend(self.held)


class TextStream:
    """Text and thinking of one reply, told apart also where a model tags its thoughts itself."""

    def __init__(self) -> None:
        self._text = DeltaBuffer()
        self._thinking = DeltaBuffer()
        self._open = False
        self._tags: ThinkTagFilter | None = ThinkTagFilter()

    @property
    def text(self) -> str:
        return self._text.text

    @property
    def thinking(self) -> str:
        return self._thinking.text

    def think(self, text: str) -> Iterator[ModelEvent]:
        """A server that tells thinking apart has no tags left in the text."""
        if text:
            self._tags = None
            yield from self._think(text)

    def say(self, text: str) -> Iterator[ModelEvent]:
        if not text:
            return
        if self._tags is None:
            yield from self._say(text)
        else:
            pieces = self._tags.feed(text)
            if self._tags.is_over:
                self._tags = None
            yield from self._told_apart(pieces)

    def pause(self) -> Iterator[ModelEvent]:
        """Something else follows, or nothing: what was held back is said, thinking is over."""
        if self._tags is not None:
            yield from self._told_apart(self._tags.end())
        if self._open:
            self._open = False
            yield ThinkingEnd(self._thinking.text)

    def _told_apart(self, pieces: list[tuple[bool, str]]) -> Iterator[ModelEvent]:
        for is_thought, piece in pieces:
            yield from self._think(piece) if is_thought else self._say(piece)

    def _think(self, text: str) -> Iterator[ModelEvent]:
        self._open = True
        text = self._thinking.add(text)
        yield ThinkingDelta(text, self._thinking.chars)

    def _say(self, text: str) -> Iterator[ModelEvent]:
        if self._open:
            self._open = False
            yield ThinkingEnd(self._thinking.text)
        if text := self._text.add(text):
            yield TextDelta(text)
