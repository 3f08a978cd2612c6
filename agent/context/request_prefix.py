"""Common prefix of a conversation's requests, for calls outside the turn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.context.edited_files import EditedFiles
from agent.context.focused_files import FileFocus
from agent.context.history_validation import repair
from agent.context.images import ImageLoader
from agent.context.token_budget import ContextBudget, TokenCalibration, trim_to_budget
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.token_estimate import estimate, estimate_text
from agent.records import frozen
from agent.types import Message, user

# Tokens reserved for the note of `trim_to_budget` about dropped messages.
_NOTE_TOKENS = 100


@frozen
class RequestPrefix:
    """System prompt, tools and options of a conversation's requests, byte for byte.

    A request that adds one message is cheap, because the rest is in the vendor's cache. This
    applies only to `model`, as opened by the pool. `gauge` knows the token factor of `counted_as`,
    `folder` is the base of picture paths, and `edited` reads edited files again.
    """

    model: str | None
    model_id: str
    system: str
    tools: Sequence[ToolSpec]
    temperature: float | None
    max_tokens: int | None
    options: Mapping[str, Any]
    cache_key: str | None
    room: ContextBudget
    gauge: TokenCalibration
    counted_as: str
    folder: Path
    edited: EditedFiles | None = None
    focus: FileFocus | None = None

    def focused(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages without evicted files."""
        if self.focus is None:
            return messages
        room = self.room.with_factor(self.gauge.factor(self.counted_as))
        return self.focus.fit(messages, room.focus_tokens).messages

    def visible_messages(
        self, messages: Sequence[Message], front: str | None, *, is_trimmed: bool, least: int
    ) -> list[Message] | None:
        """Return the messages as in the turn's requests; None if fewer than `least` would remain.

        If the window is full, the newest messages are omitted.
        """
        limit = self.room.with_factor(self.gauge.factor(self.counted_as)).limit
        ahead = estimate_text(front) if front else 0
        sizes = [estimate(message) for message in messages]
        end, tokens = len(messages), sum(sizes) + ahead
        while end > least and tokens > limit - _NOTE_TOKENS:
            end -= 1
            tokens -= sizes[end]
            while end > least and messages[end].role == "tool":
                end -= 1
                tokens -= sizes[end]
        if end < least or tokens > limit - _NOTE_TOKENS:
            return None
        window = trim_to_budget(repair(messages[:end]), limit, trimmed=is_trimmed, front=front)
        return None if window.cut else list(window.messages)

    async def request(self, messages: Sequence[Message], words: str) -> ModelRequest:
        """Return the next request of the conversation, with `words` as the user message."""
        with_pictures = await ImageLoader(self.folder).with_pictures(messages)
        return ModelRequest(
            self.model_id,
            self.system,
            [*with_pictures, user(words)],
            self.tools,
            self.temperature,
            self.max_tokens,
            self.options,
            cache_key=self.cache_key,
        )
