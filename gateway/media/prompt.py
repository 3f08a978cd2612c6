"""Attachments of a message as the model reads them."""

from collections.abc import Iterator, Sequence

from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.types import Context, ImageFile, Part, Taint
from gateway.core.messages import InboundMessage, Media
from gateway.media.storage import format_size

# Kinds whose content the sender chose; all others may contain text of other people.
_OWN = frozenset({"location", "dice", "voice", "video_note"})
_LOUD = frozenset({"voice", "audio", "video_note", "video"})


def attachment_parts(messages: Sequence[InboundMessage]) -> list[Part]:
    """Return a line for each file, place or contact, and the pictures, loaded when shown."""
    lines = "\n".join(_line(media) for message in messages for media in message.media)
    return [*_pictures(messages), *([Context(lines)] if lines else [])]


def attached_taint(messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """Return the taint of the attachments: untrusted if any may contain text of other people."""
    strange = any(
        media.kind not in _OWN or media.quoted for message in messages for media in message.media
    )
    return UNTRUSTED if strange else NOTHING


def _pictures(messages: Sequence[InboundMessage]) -> Iterator[ImageFile]:
    for message in messages:
        for media in message.media:
            # An edit changes the caption; the picture was shown with the original message.
            if media.digest and media.path and not (message.edited and not media.quoted):
                yield ImageFile(media.path, media.media_type or "", media.digest)


def _line(media: Media) -> str:
    what = media.kind.replace("_", " ")
    if media.quoted:
        what = f"in the message replied to: {what}"
    if media.name:
        what += f' "{media.name}"'
    if media.seconds:
        what += f", {media.seconds} s"
    if media.path:
        size = f" ({format_size(media.size_bytes)})" if media.size_bytes is not None else ""
        what += f" in {media.path}{size}"
    if media.trouble:
        what += f"; it cannot be {'used' if not media.path else 'heard'}: {media.trouble}"
    if media.words:
        is_spoken = media.kind in _LOUD
        what += f'; transcription: "{media.words}"' if is_spoken else f": {media.words}"
    return f"[{what}]"
