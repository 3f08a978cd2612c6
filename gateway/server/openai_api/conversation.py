"""A client's conversation, whichever of the two APIs it comes by."""

import base64
import hashlib
from collections.abc import Sequence

from agent.prompts import render_prompt
from agent.records import frozen
from agent.serialization import dumps
from agent.types import Image, Message, user

_TITLE_CHARS = 50


@frozen
class ClientConversation:
    """`system` are the instructions of the program that asks."""

    system: str
    messages: tuple[Message, ...]

    @property
    def news(self) -> tuple[Message, ...]:
        """What comes behind the last answer."""
        return self.messages[self._answered_count :]

    @property
    def earlier(self) -> tuple[Message, ...]:
        """What has been answered, with the last answer."""
        return self.messages[: self._answered_count]

    @property
    def _answered_count(self) -> int:
        for number in range(len(self.messages), 0, -1):
            if self.messages[number - 1].role == "assistant":
                return number
        return 0

    def words(self, *, is_new: bool) -> str:
        """What Kore's agent is told; in a new session with all that was said elsewhere."""
        text = "\n\n".join(one.text for one in self.news if one.text)
        if not is_new or not (self.system or self.earlier):
            return text
        parts = []
        if self.system:
            parts.append(render_prompt("api/instructions", text=self.system))
        if self.earlier:
            lines = "\n\n".join(f"{one.role}: {one.text}" for one in self.earlier if one.text)
            parts.append(render_prompt("api/earlier", text=lines))
        return "\n\n".join([*parts, text])

    def title(self) -> str:
        """The person's first words, where `words` of a new session begin with others; else ''."""
        if not (self.system or self.earlier):
            return ""
        texts = (" ".join(one.text.split()) for one in self.messages if one.role == "user")
        text = next((text for text in texts if text), "")
        return text if len(text) <= _TITLE_CHARS else f"{text[: _TITLE_CHARS - 1]}…"

    def pictures(self) -> list[str]:
        """What is shown with the news, as base64."""
        return [
            base64.b64encode(part.data).decode()
            for one in self.news
            for part in one.content
            if isinstance(part, Image)
        ]

    def fingerprint(self) -> str:
        """Of what has been answered: who says the same again goes on where that was said."""
        return _fingerprint(self.system, self.earlier)

    def fingerprints_with(self, answer: str) -> frozenset[str]:
        """The ones that the next request may have: some programs send their system message with
        the first request only."""
        messages = (*self.messages, Message("assistant", user(answer).content))
        return frozenset(_fingerprint(system, messages) for system in (self.system, ""))


def _fingerprint(system: str, messages: Sequence[Message]) -> str:
    lines = [[one.role, one.text.strip()] for one in messages]
    return hashlib.sha256(dumps([system.strip(), lines]).encode()).hexdigest()
