"""Pictures of a conversation, loaded per request within its limits.

Conversations store references; only pictures that a request shows are read, newest first. A
missing, changed or excluded picture is described in words, so it never blocks a conversation.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.security.files import file_io
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.types import Context, Image, ImageFile, Message, Part

# Limits per request. Vendors accept more pictures, but at most 32 MB per request.
MAX_IMAGES = 12
MAX_BYTES = 12_000_000


class ImageLoader:
    """Picture loader of one turn, with a cache. `folder` is the base of relative paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[ImageFile, Part] = {}
        self._messages_with_pictures: dict[int, tuple[Message, Message]] = {}

    async def with_pictures(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with their newest pictures, and text in place of the others."""
        files = [
            part
            for message in reversed(messages)
            for part in reversed(message.content)
            if isinstance(part, ImageFile)
        ]
        if not files:
            return messages
        parts: dict[ImageFile, Part] = {}
        room = MAX_BYTES
        for part in dict.fromkeys(files):
            part_shown = (
                await self._load(part)
                if len(parts) < MAX_IMAGES
                else _describe(part, "picture_old")
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
            data = file_io.read(self._folder / part.path, MAX_PICTURE_BYTES)
        except ToolError:
            return _describe(part, "picture_gone")
        media_type = sniff_image_type(data[:16])
        if media_type is None or hashlib.sha256(data).hexdigest() != part.digest:
            return _describe(part, "picture_gone")
        return Image(media_type, data)

    def _with(self, message: Message, parts: Mapping[ImageFile, Part]) -> Message:
        """Return the same message object for the same content, so that vendor data is reused."""
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
