"""Separation of text and thinking in streamed replies."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.events import ModelEvent, TextDelta, ThinkingDelta, ThinkingEnd
from agent.text.visible import replace_lone_surrogates

_TAGS = {"<think>": "</think>", "<thinking>": "</thinking>"}
_CLOSING = re.compile(r"</think(?:ing)?>(?=(?P<more>[^\n]*))")


class ThinkTagFilter:
    """Filter that separates thoughts from text, however the text is chunked.

    Only tags at the very beginning count; later tags are part of the model's text.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._closing: str | None = None
        self._has_begun = False
        self._after = False

    @property
    def is_over(self) -> bool:
        """True when no thought can follow and no text is pending."""
        return self._has_begun and self._closing is None and not self._after

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Return the pieces that are certain by now, each with a flag for thoughts."""
        self._pending += text
        if not self._has_begun and not self._begin():
            return []
        if self._closing is None:
            return self._rest()
        thought, closing_tag, rest = self._pending.partition(self._closing)
        if not closing_tag:
            overlap = _overlap(self._pending, self._closing)
            thought, self._pending = (
                self._pending[: len(self._pending) - overlap],
                self._pending[-overlap:] * (overlap > 0),
            )
            return [(True, thought)] if thought else []
        self._pending, self._closing, self._after = rest, None, True
        return [*([(True, thought)] if thought else []), *self._rest()]

    def end(self) -> list[tuple[bool, str]]:
        """Return the pending pieces at the end of the text."""
        pending, self._pending = self._pending, ""
        self._has_begun = True
        if not pending or (self._after and not pending.strip()):
            return []
        return [(self._closing is not None, pending)]

    def _begin(self) -> bool:
        """Return whether the text is now known to begin, or not to begin, with a thought."""
        start = self._pending.lstrip()
        for opening, closing in _TAGS.items():
            if start.startswith(opening):
                self._pending, self._closing = start[len(opening) :], closing
                self._has_begun = True
                return True
        self._has_begun = not any(opening.startswith(start) for opening in _TAGS)
        return self._has_begun

    def _rest(self) -> list[tuple[bool, str]]:
        if self._after:
            # Blank lines between thought and answer belong to neither.
            self._pending = self._pending.lstrip()
            self._after = not self._pending
        pending, self._pending = self._pending, ""
        return [(False, pending)] if pending else []


def _unopened_tag(text: str) -> re.Match[str] | None:
    """Return the first closing tag, if it ends its line, is not code, and has no opening tag."""
    tag = _CLOSING.search(text)
    if tag is None or tag["more"].strip():
        return None
    before = text[: tag.start()]
    is_opened = any(opening in before for opening in _TAGS)
    return None if is_opened or before.count("`") % 2 else tag


def _overlap(text: str, tag: str) -> int:
    """Return the number of characters at the end of the text that may begin the tag."""
    return next((n for n in range(min(len(tag), len(text)), 0, -1) if tag.startswith(text[-n:])), 0)


@dataclass(slots=True)
class DeltaBuffer:
    """Buffer for streamed text; half of a surrogate pair waits for its other half."""

    texts: list[str] = field(default_factory=list)
    pending: str = ""
    chars: int = 0

    def add(self, text: str) -> str:
        text = self.pending + text
        self.pending = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.pending = text[:-1], text[-1]
        text = replace_lone_surrogates(text)
        self.texts.append(text)
        self.chars += len(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self.texts) + replace_lone_surrogates(self.pending)


class TextStream:
    """Text and thinking of one reply, separated even if the model tags its own thoughts.

    Some servers give the opening tag to the model, so that the reply only contains the closing tag.
    Until then the thoughts are streamed as text; `voids_text` reports this at the end.
    """

    def __init__(self) -> None:
        self._text = DeltaBuffer()
        self._thinking = DeltaBuffer()
        self._open = False
        self._tags: ThinkTagFilter | None = ThinkTagFilter()
        self.voids_text = False

    @property
    def text(self) -> str:
        return self._text.text

    @property
    def thinking(self) -> str:
        return self._thinking.text

    def add_thinking(self, text: str) -> Iterator[ModelEvent]:
        """Add thinking; a server that separates it leaves no tags in the text."""
        if text:
            self._tags = None
            yield from self._think(text)

    def add_text(self, text: str) -> Iterator[ModelEvent]:
        if not text:
            return
        if self._tags is None:
            yield from self._say(text)
        else:
            pieces = self._tags.feed(text)
            if self._tags.is_over:
                self._tags = None
            yield from self._dispatch(pieces)

    def pause(self) -> Iterator[ModelEvent]:
        """Emit pending text and end the thinking, before other content or the end of the reply."""
        if self._tags is not None:
            yield from self._dispatch(self._tags.end())
        if self._open:
            self._open = False
            yield ThinkingEnd(self._thinking.text)

    def take_unopened_thoughts(self) -> None:
        """Turn text before a closing tag without an opening tag into thoughts.

        Call this at the end of the reply.
        """
        if self._thinking.chars or (tag := _unopened_tag(self.text)) is None:
            return
        thoughts, answer = self.text[: tag.start()], self.text[tag.end() :]
        self._thinking, self._text = DeltaBuffer(), DeltaBuffer()
        self._thinking.add(thoughts.strip())
        self._text.add(answer.lstrip())
        self.voids_text = True

    def _dispatch(self, pieces: list[tuple[bool, str]]) -> Iterator[ModelEvent]:
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
