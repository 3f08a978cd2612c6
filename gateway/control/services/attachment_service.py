"""The calls about files that go along with messages, for the process that owns the data."""

from collections.abc import Mapping
from typing import Any

from agent.records import frozen
from gateway.core.messages import Media
from gateway.media.uploads import Uploads
from gateway.sessions.sent_files import SentFiles


@frozen
class Attachments:
    """Files on their way in and out."""

    uploads: Uploads
    sent: SentFiles


class AttachmentService:
    """Implements `gateway.control.service.AttachmentCalls`."""

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    async def begin_upload(self, name: str, size_bytes: int) -> str:
        return await self._attachments.uploads.begin(name, size_bytes)

    async def continue_upload(self, upload: str, offset: int, data: str) -> Media | None:
        return await self._attachments.uploads.add(upload, offset, data)

    async def read_sent_file(
        self, session: str, seq: int, call: str, number: int, offset: int = 0
    ) -> Mapping[str, Any]:
        return await self._attachments.sent.read(session, seq, call, number, offset)

    async def _seen_media(self, media: tuple[Media, ...]) -> tuple[Media, ...]:
        """With what there is at the paths of uploads, whatever the client says."""
        return tuple([await self._attachments.uploads.look_again(one) for one in media])
