"""Conversation of a client, common to both APIs."""

import base64
import hashlib
from collections.abc import Sequence

from agent.prompts import render_prompt
from agent.records import frozen
from agent.serialization import dumps
from agent.types import Image, Message, user

_MAX_TITLE_CHARS = 50


@frozen
class ClientConversation:
    """Conversation; `system` contains the instructions of the requesting program."""

    system: str
    messages: tuple[Message, ...]

    @property
    def news(self) -> tuple[Message, ...]:
        """Messages after the last answer."""
        return self.messages[self._answered_count :]

    @property
    def earlier(self) -> tuple[Message, ...]:
        """Messages up to and including the last answer."""
        return self.messages[: self._answered_count]

    @property
    def _answered_count(self) -> int:
        for number in range(len(self.messages), 0, -1):
            if self.messages[number - 1].role == "assistant":
                return number
        return 0

    def words(self, *, is_new: bool) -> str:
        """Return the text for Kore's agent; in a new session, include everything said elsewhere."""
        text = "\n\n".join(message.text for message in self.news if message.text)
        if not is_new or not (self.system or self.earlier):
            return text
        parts = []
        if self.system:
            parts.append(render_prompt("api/instructions", text=self.system))
        if self.earlier:
            lines = "\n\n".join(
                f"{message.role}: {message.text}" for message in self.earlier if message.text
            )
            parts.append(render_prompt("api/earlier", text=lines))
        return "\n\n".join([*parts, text])

    def title(self) -> str:
        """Return a title if the `words` of a new session begin with other text, else ''.

        The title is the beginning of the person's first message.
        """
        if not (self.system or self.earlier):
            return ""
        texts = (
            " ".join(message.text.split()) for message in self.messages if message.role == "user"
        )
        text = next((text for text in texts if text), "")
        return text if len(text) <= _MAX_TITLE_CHARS else f"{text[: _MAX_TITLE_CHARS - 1]}…"

    def pictures(self) -> list[str]:
        """Return the pictures in the new messages, as base64."""
        return [
            base64.b64encode(part.data).decode()
            for message in self.news
            for part in message.content
            if isinstance(part, Image)
        ]

    def fingerprint(self) -> str:
        """Return a fingerprint of the answered messages.

        A request with the same messages continues their session.
        """
        return _fingerprint(self.system, self.earlier)

    def fingerprints_with(self, answer: str) -> frozenset[str]:
        """Return the possible fingerprints of the next request.

        Some programs send their system message only with the first request.
        """
        messages = (*self.messages, Message("assistant", user(answer).content))
        return frozenset(_fingerprint(system, messages) for system in (self.system, ""))


def _fingerprint(system: str, messages: Sequence[Message]) -> str:
    lines = [[message.role, message.text.strip()] for message in messages]
    return hashlib.sha256(dumps([system.strip(), lines]).encode()).hexdigest()
