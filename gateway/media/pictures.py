"""Pictures sent by clients, each stored under its digest."""

import base64
import binascii
import hashlib
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.security.taint.file_marks import mark_tainted
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import UNTRUSTED
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from gateway.core.messages import Media

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def store_base64(data: str, folder: Path, workspace: Path) -> Media:
    """Store a picture in a folder of the workspace, marked as possibly untrusted content.

    Raises `KoreError` for data that is not a picture.
    """
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise KoreError(t("a picture is not base64")) from None
    kind = sniff_image_type(content[:16])
    if kind not in _ENDINGS or len(content) > MAX_PICTURE_BYTES:
        raise KoreError(
            t(
                "expected a PNG, JPEG, GIF or WebP of at most {size_bytes:,} bytes",
                size_bytes=MAX_PICTURE_BYTES,
            )
        )
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest}.{_ENDINGS[kind]}"
    if path.exists():
        mark_tainted(path, workspace)
    else:
        write_marked(path, content, workspace, UNTRUSTED, mode=0o600)
    return Media("photo", str(path), path.name, kind, len(content), digest=digest)
