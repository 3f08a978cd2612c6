"""Uploads in parts."""

import base64

from gateway.core.messages import Media
from gateway.media.uploads import PART_BYTES, Uploads


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def sent(uploads: Uploads, name: str, data: bytes) -> Media:
    upload = await uploads.begin(name, len(data))
    for offset in range(0, len(data), PART_BYTES):
        part = encoded(data[offset : offset + PART_BYTES])
        media = await uploads.add(upload, offset, part)
    assert media is not None
    return media
