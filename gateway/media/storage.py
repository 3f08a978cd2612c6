"""Received files in the inbox folders of the workspace."""

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
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from gateway.core.messages import InboundMessage, Media

# Disk space that received files must leave free.
FREE_BYTES = 100 * 2**20

_NAME_CHARS = 60

# A name has at most 255 bytes, including the parts before and after it.
_NAME_BYTES = 180

# Hexadecimal digits: enough to make collisions of two files implausible.
_MARK_DIGITS = 16

# Versions of one file: a changed file never overwrites an earlier one.
_MAX_VERSIONS = 9

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

# Suffixes of `storage_name` and `places`, and of a file whose transfer was interrupted.
_OURS = re.compile(rf"-[0-9a-f]{{{_MARK_DIGITS}}}(?:-\d)?(?:\.[^\W_]{{1,10}})?(?P<part>\.part)?\Z")

_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class InboxPaths(Protocol):
    """Folders for received files, implemented by `TurnPermissions`."""

    @property
    def workspace(self) -> Path: ...

    def inbox(self, message: InboundMessage) -> Path: ...


def storage_name(media: Media, account: str) -> str:
    """Return a plain name that is unique to the file, and the same whenever it arrives.

    The part after the first characters distinguishes it from all others.
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
    """Yield possible places of a file with this name: other files may occupy earlier ones."""
    yield path
    for n in range(2, _MAX_VERSIONS + 1):
        yield path.with_stem(f"{path.stem}-{n}")


def has_room(folder: Path, size_bytes: int) -> bool:
    """Return whether the disk of the folder, which may not exist yet, has room for the file."""
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free >= size_bytes + FREE_BYTES


async def store_upload(
    path: Path, workspace: Path, pour: Callable[[BinaryIO], Awaitable[None]]
) -> None:
    """Write a file with `pour`, all or nothing, and mark it as untrusted content.

    Paths are real: a folder that became a link is refused. A kill leaves a partial file, which the
    next attempt overwrites. An existing file at `path` is not replaced. Raises `OSError`, and
    errors of `pour`.
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
    """Delete a received file. Raises `OSError`."""
    with suppress(FileNotFoundError), open_folder_beneath(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


def delete_older_than(inbox: Path, before: float) -> int:
    """Delete received files below a folder that were last touched before `before`.

    `before` is Unix time. Returns the number of deleted files; other files are not deleted.
    """
    deleted = 0
    # Without the folder, or with a link in its place, nothing was received.
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
    """Return the reference to an existing file; displayable pictures get their digest.

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
            if kind is not None and size <= MAX_PICTURE_BYTES:
                digest = hashlib.sha256(head + file.read(MAX_PICTURE_BYTES)).hexdigest()
    return replace(
        media, path=where, size_bytes=size, media_type=kind or media.media_type, digest=digest
    )


def format_size(size_bytes: int) -> str:
    if size_bytes < 2**10:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 2**20:.1f} MB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:.0f} KB"


def is_stored_name(name: str) -> bool:
    """Return whether the name is one of a complete received file."""
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
    """Move a partial file to its final place. Raises `OSError`."""
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

# One-shot runs end before this.
START_DELAY_S = 10.0

_DAY_S = 86_400.0


async def delete_expired_daily(workspace: Path, keep_days: int) -> None:
    """Delete expired files daily until cancelled."""
    rest_s = START_DELAY_S
    while True:
        await asyncio.sleep(rest_s)
        rest_s = _DAY_S

        inbox, before = workspace / INBOX_FOLDER, time.time() - keep_days * _DAY_S
        if deleted := await asyncio.to_thread(delete_older_than, inbox, before):
            log.info("deleted %d inbox files older than %d days", deleted, keep_days)
