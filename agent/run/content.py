"""Prompts for agents: text, pictures or a whole message."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.safe_open import open_regular
from agent.security.network.urls import Allow, is_public
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.types import Image, Message, Part, Text


@frozen
class ImageUrl:
    """Picture at a public address, fetched when the run begins and stored with the conversation."""

    url: str


# A `Path` and `bytes` are pictures: PNG, JPEG, GIF or WebP.
PromptPart = str | Path | bytes | Image | ImageUrl
Prompt = str | Message | Sequence[PromptPart]


async def message_of(prompt: Prompt, allow: Allow = is_public) -> Message:
    """Return the prompt as a message. Raise `KoreError` for a picture that cannot be shown."""
    if isinstance(prompt, Message):
        return prompt
    if isinstance(prompt, str):
        return Message("user", (Text(prompt),))
    return Message("user", tuple([await _part(item, allow) for item in prompt]))


async def _part(part: PromptPart, allow: Allow) -> Part:
    match part:
        case str():
            return Text(part)
        case Image():
            return part
        case bytes():
            return _image(part, t("the bytes"))
        case Path():
            return _image(await _read(part), str(part))
        case ImageUrl(url):
            return _image(await _fetch(url, allow), url)
    raise KoreError(
        t(
            "expected text, pictures, paths, bytes or ImageUrl in a prompt, found {value}",
            value=type(part).__name__,
        )
    )


def _image(data: bytes, source: str) -> Image:
    if len(data) > MAX_PICTURE_BYTES:
        raise KoreError(
            t(
                "{source} is too large for a picture: at most {size} MB",
                source=source,
                size=MAX_PICTURE_BYTES / 1e6,
            )
        )
    if (media_type := sniff_image_type(data[:16])) is None:
        raise KoreError(t("{source} is not a PNG, JPEG, GIF or WebP picture", source=source))
    return Image(media_type, data)


async def _read(path: Path) -> bytes:
    def read() -> bytes:
        with open_regular(path) as file:
            return file.read(MAX_PICTURE_BYTES + 1)

    try:
        return await asyncio.to_thread(read)
    except OSError as exc:
        reason = exc.strerror or exc
        raise KoreError(
            t("the picture {source} cannot be read: {reason}", source=path, reason=reason)
        ) from exc


async def _fetch(url: str, allow: Allow) -> bytes:
    from agent.tools.web.fetch import fetch_bytes

    try:
        return await fetch_bytes(url, MAX_PICTURE_BYTES + 1, allow)
    except ToolError as exc:
        raise KoreError(
            t("the picture {source} cannot be read: {reason}", source=url, reason=exc)
        ) from exc
