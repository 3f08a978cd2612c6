"""Pictures of a conversation, loaded for one request as far as there is room.

A conversation holds references; only what a request shows is read, newest first. So no picture
stays in the way for good: one that is gone, has changed, or finds no room is told in words.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.security.files import file_io
from agent.text.media_types import LIMIT_BYTES, sniff_image_type
from agent.types import Context, Image, ImageFile, Message, Part

# What a request shows at most. Vendors take more pictures, but a request of 32 MB at most.
MOST = 12
MOST_BYTES = 12_000_000


class ImageLoader:
    """For one turn: what was loaded once is not read again. `folder` is where paths start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[ImageFile, Part] = {}
        self._messages_with_pictures: dict[int, tuple[Message, Message]] = {}

    async def with_pictures(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with their newest pictures in them, and words for the others."""
        files = [
            part
            for message in reversed(messages)
            for part in reversed(message.content)
            if isinstance(part, ImageFile)
        ]
        if not files:
            return messages
        parts: dict[ImageFile, Part] = {}
        room = MOST_BYTES
        for part in dict.fromkeys(files):
            part_shown = (
                await self._load(part) if len(parts) < MOST else _describe(part, "picture_old")
            )
            if isinstance(part_shown, Image):
                room -= len(part_shown.data)
                if room < 0:
                    part_shown = _describe(part, "picture_old")
            parts[part] = part_shown
        return [self._with(message, parts) for message in messages]

    async def _load(self, part: ImageFile) -> Part:
        if part not in self._parts:
            self._parts[part] = await file_io.in_thread(lambda: self._read(part))
        return self._parts[part]

    def _read(self, part: ImageFile) -> Part:
        try:
            data = file_io.read(self._folder / part.path, LIMIT_BYTES)
        except ToolError:
            return _describe(part, "picture_gone")
        media_type = sniff_image_type(data[:16])
        if media_type is None or hashlib.sha256(data).hexdigest() != part.digest:
            return _describe(part, "picture_gone")
        return Image(media_type, data)

    def _with(self, message: Message, parts: Mapping[ImageFile, Part]) -> Message:
        """The same object as before when the same is shown: what vendors made of it stays."""
        if not any(isinstance(part, ImageFile) for part in message.content):
            return message
        copy = replace(
            message,
            content=tuple(
                parts[part] if isinstance(part, ImageFile) else part for part in message.content
            ),
        )
        before = self._messages_with_pictures.get(id(message))
        if before is not None and before[0] is message and before[1] == copy:
            return before[1]
        self._messages_with_pictures[id(message)] = (message, copy)
        return copy


def _describe(part: ImageFile, prompt: str) -> Context:
    return Context(render_prompt(prompt, path=part.path))
