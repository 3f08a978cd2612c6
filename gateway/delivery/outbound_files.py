"""Files on their way out: copies that nothing changes until they are sent, and how they are sent.

A copy is private to Kore (0600) and is deleted once it is on record that it has arrived, or never
will; what a crash leaves behind is swept up at the next start.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent.security.files import file_io
from agent.text.media_types import sniff_image_type
from gateway.channels.base import Channel, MessageRefused, SupportsMedia
from gateway.core.messages import FileKind, OutboundFile, OutboundMessage
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import outbox

FOLDER = "outgoing"
# What Telegram shows as a picture is smaller than what it carries.
_PHOTO_BYTES = 10 * 2**20
_KINDS: dict[str, FileKind] = {
    ".mp4": "video",
    ".mp3": "audio",
    ".m4a": "audio",
    ".ogg": "voice",
    ".gif": "animation",
}


def snapshot_file(path: Path, folder: Path, limit_bytes: int) -> OutboundFile:
    """A copy of the file at the real `path`, for one message. Raises `ToolError`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / secrets.token_hex(16)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(copy, flags, 0o600), "wb") as target:
            size, head = file_io.copy(path, target, limit_bytes)
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    return OutboundFile(path.name, str(copy), None, _kind_of(path, size, head), size)


def write_snapshot(data: bytes, folder: Path) -> Path:
    """A copy that holds `data`, for one message. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / secrets.token_hex(16)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(copy, flags, 0o600), "wb") as target:
        target.write(data)
        target.flush()
        os.fsync(target.fileno())
    return copy


async def send_message(channel: Channel, message: OutboundMessage) -> str:
    """Send a message by the way that is right for it; returns the platform's id. Raises
    `SendError`."""
    if not message.content.files:
        return await channel.send(message)
    if not isinstance(channel, SupportsMedia):
        raise MessageRefused(f"{channel.name} cannot send files")
    return await channel.send_files(message)


def delete_snapshots(files: Iterable[OutboundFile]) -> None:
    """Delete copies; no file is deleted that is not one."""
    for file in files:
        if file.path is not None and Path(file.path).parent.name == FOLDER:
            with suppress(OSError):
                os.unlink(file.path)


def delete_orphans(tx: Transaction, folder: Path) -> int:
    """Delete the copies that no message to send waits for; returns how many those were."""
    if not folder.is_dir():
        return 0
    paths_to_send = {file.path for file in waiting(tx)}
    old = [path for path in folder.iterdir() if str(path) not in paths_to_send]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def waiting(tx: Transaction) -> set[OutboundFile]:
    """The files of messages that are still to be sent."""
    return {OutboundFile(**file) for file in outbox.files_to_send(tx)}


def _kind_of(path: Path, size_bytes: int, head: bytes) -> FileKind:
    if sniff_image_type(head) in ("image/jpeg", "image/png", "image/webp"):
        return "photo" if size_bytes <= _PHOTO_BYTES else "document"
    return _KINDS.get(path.suffix.lower(), "document")
