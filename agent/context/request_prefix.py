"""What a conversation's requests begin with, so that a call beside the turn continues them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.context.edited_files import EditedFiles
from agent.context.focused_files import FileFocus
from agent.context.images import ImageLoader
from agent.context.token_budget import (
    ContextBudget,
    estimate,
    estimate_text,
    trim_to_budget,
)
from agent.context.token_calibration import TokenCalibration
from agent.history_validation import repair
from agent.providers.base import ModelRequest, ToolSpec
from agent.records import frozen
from agent.types import Message, user

# What `trim_to_budget` may say of messages that are not there any more.
_NOTE_TOKENS = 100


@frozen
class RequestPrefix:
    """System prompt, tools and options of a conversation's requests, byte for byte.

    A request that adds one message to it costs little: the vendor has the rest in its cache. That
    holds for one model only, `model` as the pool opens it. `gauge` knows how `counted_as` counts,
    and `folder` is where the paths of pictures start. `edited` reads again what the turns edited.
    """

    model: str | None
    model_id: str
    system: str
    tools: Sequence[ToolSpec]
    temperature: float | None
    max_tokens: int | None
    options: Mapping[str, Any]
    room: ContextBudget
    gauge: TokenCalibration
    counted_as: str
    folder: Path
    edited: EditedFiles | None = None
    focus: FileFocus | None = None

    def focused(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same messages, without the files that have left the requests."""
        if self.focus is None:
            return messages
        room = self.room.with_factor(self.gauge.factor(self.counted_as))
        return self.focus.fit(messages, room.focus_tokens).messages

    def visible_messages(
        self, messages: Sequence[Message], front: str | None, *, is_trimmed: bool, least: int
    ) -> list[Message] | None:
        """The messages as the turn's requests show them, without the newest where the window is
        full; None when fewer than `least` would be left."""
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
        """The conversation's next request, with `words` in place of what comes next."""
        with_pictures = await ImageLoader(self.folder).with_pictures(messages)
        return ModelRequest(
            self.model_id,
            self.system,
            [*with_pictures, user(words)],
            self.tools,
            self.temperature,
            self.max_tokens,
            self.options,
        )
