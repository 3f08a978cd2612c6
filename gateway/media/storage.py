"""Files that people send, in the inbox folders of the workspace."""

import asyncio
import errno
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Protocol

from agent.security.files import file_io
from agent.security.files.folder_tree import TreeWalk
from agent.security.files.paths import INBOX_FOLDER
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.taint.file_marks import mark_tainted
from agent.text.media_types import LIMIT_BYTES, sniff_image_type
from gateway.core.messages import InboundMessage, Media

# What stays free on the disk whatever is sent.
FREE_BYTES = 100 * 2**20

_NAME_CHARS = 60

# A name has 255 bytes at most, with what is put before and behind it.
_NAME_BYTES = 180

# Hexadecimal: too many for two files to share them by chance.
_MARK_DIGITS = 16

# Versions of one file: a changed one is never overwritten.
_VERSIONS = 9

_UNSAFE = re.compile(r"[^\w.,()+ -]+")

_ENDINGS = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "video/mp4": ".mp4",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
}

# What `storage_name` puts behind a name, and `places` behind that; and a file that broke off on its
# way.
_OURS = re.compile(rf"-[0-9a-f]{{{_MARK_DIGITS}}}(?:-\d)?(?:\.[^\W_]{{1,10}})?(?P<part>\.part)?\Z")

_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class InboxPaths(Protocol):
    """Where files go that come with a message; `TurnPermissions` knows."""

    @property
    def workspace(self) -> Path: ...

    def inbox(self, message: InboundMessage) -> Path: ...


def storage_name(media: Media, account: str) -> str:
    """A plain name, the same whenever the same file comes; two files never share one.

    What follows the first letters of the name tells it from all others.
    """
    identity = f"{account}:{media.unique or media.remote}:{media.kind}"
    mark = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:_MARK_DIGITS]
    base = _UNSAFE.sub("_", (media.name or "").rpartition("/")[2]).strip(" .-")
    stem, dot, ending = base.rpartition(".")
    if not dot or not ending.isalnum() or len(ending) > 10:
        stem, ending = base, _ENDINGS.get(media.media_type or "", "").lstrip(".")
    stem = stem[:_NAME_CHARS].encode()[:_NAME_BYTES].decode(errors="ignore")
    stem = stem.strip(" .-") or media.kind
    return f"{stem}-{mark}.{ending}" if ending else f"{stem}-{mark}"


def places(path: Path) -> Iterator[Path]:
    """Where the file of this name may lie: beside what stands there already and is another."""
    yield path
    for n in range(2, _VERSIONS + 1):
        yield path.with_stem(f"{path.stem}-{n}")


def has_room(folder: Path, size_bytes: int) -> bool:
    """Whether the disk that the folder is on, or will be, has room for a file of this size."""
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free >= size_bytes + FREE_BYTES


async def store_upload(
    path: Path, workspace: Path, pour: Callable[[BinaryIO], Awaitable[None]]
) -> None:
    """Make `path` hold what `pour` writes, all or nothing; it is marked as strangers' words.

    Paths are real: a folder that became a link is refused. A kill in between leaves a part behind,
    which the next try begins anew. What is at `path` already is not overwritten.
    Raises `OSError`, and what `pour` raises.
    """
    part = path.with_name(f".{path.name}.part")
    file = await asyncio.to_thread(_open_part, part)
    try:
        await pour(file)
        await file_io.in_thread(lambda: _keep(file, part, path, workspace))
    except BaseException:
        file.close()
        with suppress(OSError):
            os.unlink(part)
        raise


def discard(path: Path) -> None:
    """What was received there is not to stay. Raises `OSError`."""
    with suppress(FileNotFoundError), open_folder_beneath(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


def delete_older_than(inbox: Path, before: float) -> int:
    """Delete what was received in this folder, or below it, and not touched since `before`
    (Unix time); returns how many files. What anybody else has put there stays."""
    deleted = 0
    # Where there is none, or a link, nothing was received.
    with (
        suppress(OSError),
        open_folder_beneath(inbox.parent.resolve() / inbox.name, flags=LISTED) as root,
    ):
        for member in TreeWalk(root):
            if member.is_folder or not _OURS.search(member.name):
                continue
            with suppress(OSError):
                if member.info.st_mtime < before:
                    os.unlink(member.name, dir_fd=member.folder)
                    deleted += 1
    return deleted


def with_file_facts(media: Media, path: Path, workspace: Path) -> Media:
    """The reference to a file that is there; a picture that can be shown has its fingerprint.

    Paths are real: no link is followed. Raises `OSError`.
    """
    inside = path.is_relative_to(workspace)
    where = str(path.relative_to(workspace)) if inside else str(path)
    with open_folder_beneath(path.parent) as folder:
        fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb") as file:
            size = os.fstat(fd).st_size
            head = file.read(16)
            kind = sniff_image_type(head)
            digest = None
            if kind is not None and size <= LIMIT_BYTES:
                digest = hashlib.sha256(head + file.read(LIMIT_BYTES)).hexdigest()
    return replace(
        media, path=where, size_bytes=size, media_type=kind or media.media_type, digest=digest
    )


def format_size(size_bytes: int) -> str:
    if size_bytes < 2**10:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 2**20:.1f} MB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:.0f} KB"


def is_stored_name(name: str) -> bool:
    """Whether a whole file of the inbox may be called so."""
    match = _OURS.search(name)
    is_plain = match is not None and match["part"] is None and _UNSAFE.search(name) is None
    return is_plain and not name.startswith(".")


def _open_part(part: Path) -> BinaryIO:
    with open_folder_beneath(part.parent, create=True) as folder:
        return open(os.open(part.name, _WRITTEN, 0o600, dir_fd=folder), "wb")


def _keep(file: BinaryIO, part: Path, path: Path, workspace: Path) -> None:
    with file:
        file.flush()
        os.fsync(file.fileno())
    _move(part, path, workspace)


def keep_part(part: Path, path: Path, workspace: Path) -> None:
    """The same for a part that was written before. Raises `OSError`."""
    with open_folder_beneath(part.parent) as folder:
        fd = os.open(part.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(fd, "rb"):
            os.fsync(fd)
    _move(part, path, workspace)


def _move(part: Path, path: Path, workspace: Path) -> None:
    mark_tainted(part, workspace)
    with open_folder_beneath(path.parent) as folder:
        with suppress(FileNotFoundError):
            os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path.name)
        os.rename(part.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)


log = logging.getLogger(__name__)

# A one-shot run is over by then.
BEGINS_AFTER_S = 10.0

_DAY_S = 86_400.0


async def delete_expired_daily(workspace: Path, keep_days: int) -> None:
    """Until cancelled."""
    rest_s = BEGINS_AFTER_S
    while True:
        await asyncio.sleep(rest_s)
        rest_s = _DAY_S

        inbox, before = workspace / INBOX_FOLDER, time.time() - keep_days * _DAY_S
        if deleted := await asyncio.to_thread(delete_older_than, inbox, before):
            log.info("deleted %d inbox files older than %d days", deleted, keep_days)
