"""Uploads of clients in parts, stored in the workspace's inbox like files of a chat."""

import asyncio
import base64
import binascii
import errno
import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import KoreError
from agent.i18n import t
from agent.security.files import file_io
from agent.security.files.paths import INBOX_FOLDER
from agent.security.files.safe_open import open_folder_beneath
from agent.text.visible import escape_line
from gateway.core.messages import Media
from gateway.media import storage

if TYPE_CHECKING:
    from gateway.media.shared_inbox import SharedInbox

# Size of a part, whose base64 fits into a request.
PART_BYTES = 2**20
# Limit on concurrent uploads; an upload is dropped when no part arrives for the time below.
_MAX_UPLOADS = 16
_IDLE_TIMEOUT_S = 600.0
_NAME_CHARS = 200
_ACCOUNT = "local"

_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class UnknownUpload(KoreError):
    """Raised when an upload was dropped or its process replaced; the client must start again."""

    code = "unknown-upload"


class _Upload:
    """File with `received` bytes so far; `media` once it is complete."""

    def __init__(self, name: str, size_bytes: int, part: Path, now: float) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.part = part
        self.received = 0
        self.digest = hashlib.sha256()
        self.media: Media | None = None
        self.used_at = now
        self.lock = asyncio.Lock()


class Uploads:
    """Uploads in progress.

    Only this process knows them; a kill leaves a partial file, which the inbox cleanup deletes.
    """

    def __init__(
        self,
        workspace: Callable[[], Path],
        limit_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        shared: "SharedInbox | None" = None,
    ) -> None:
        self._shared = shared
        self._workspace = workspace
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._uploads: dict[str, _Upload] = {}

    async def begin(self, name: str, size_bytes: int) -> str:
        """Start an upload and return its id. Raises `KoreError` for a file that is refused."""
        label = _clean_name(name)
        if size_bytes <= 0:
            raise KoreError(t("{name} is empty", name=label))
        if size_bytes > self._limit_bytes:
            raise KoreError(
                t(
                    "{name} has {size}; files may have {limit}",
                    name=label,
                    size=storage.format_size(size_bytes),
                    limit=storage.format_size(self._limit_bytes),
                ),
                hint=t("`kore config set media.max_file_mb N` raises the limit."),
            )
        await self._give_up_idle()
        if len(self._uploads) >= _MAX_UPLOADS:
            raise KoreError(
                t("{count} uploads are in progress; try again later", count=_MAX_UPLOADS)
            )
        inbox = self._inbox()
        if not await asyncio.to_thread(storage.has_room, inbox, size_bytes):
            raise KoreError(t("{name} cannot be stored: the disk is nearly full", name=label))
        upload = secrets.token_hex(8)
        part = inbox / f".upload-{upload}.part"
        self._uploads[upload] = _Upload(label, size_bytes, part, self._clock())
        return upload

    async def add(self, upload: str, offset: int, data: str) -> Media | None:
        """Add the part at `offset`; return the file once it is complete.

        A repeated part is ignored. Raises `KoreError`.
        """
        state = self._uploads.get(upload)
        if state is None:
            raise UnknownUpload(
                t("this upload has ended or was never started; send the file again")
            )
        content = _decoded(data)
        async with state.lock:
            state.used_at = self._clock()
            end = offset + len(content)
            if not 0 <= offset <= state.received or end > state.size_bytes:
                raise KoreError(
                    t(
                        "found bytes {offset} to {end}, expected those from {received} on",
                        offset=offset,
                        end=end,
                        received=state.received,
                    )
                )
            try:
                if end > state.received:
                    await self._append(state, content[state.received - offset :])
                if state.media is None and state.received == state.size_bytes:
                    state.media = await self._finish(state)
            except OSError as exc:
                del self._uploads[upload]
                await _discard(state)
                reason = exc.strerror or type(exc).__name__
                raise KoreError(
                    t(
                        "{name} could not be saved to disk ({reason})",
                        name=state.name,
                        reason=reason,
                    )
                ) from None
            return state.media

    async def look_again(self, media: Media) -> Media:
        """Return the facts of an inbox file that a client names. Raises `KoreError`."""
        if media.path is None or not is_inbox_path(media.path):
            return replace(media, file_digest=None) if media.file_digest else media
        workspace = self._workspace().resolve()
        path = self._inbox() / Path(media.path).name
        try:
            there = await asyncio.to_thread(storage.with_file_facts, media, path, workspace)
        except OSError:
            raise KoreError(
                t("{name} no longer exists", name=_clean_name(media.name or path.name)),
                hint=t("send the file again"),
            ) from None
        there = replace(there, file_digest=None)
        return await self._shared.put(there) if self._shared is not None else there

    def _inbox(self) -> Path:
        return self._workspace().resolve() / INBOX_FOLDER

    async def _append(self, state: _Upload, content: bytes) -> None:
        await file_io.in_thread(lambda: _write_at(state.part, state.received, content))
        state.digest.update(content)
        state.received += len(content)

    async def _finish(self, state: _Upload) -> Media:
        digest = state.digest.hexdigest()
        media = Media("document", name=state.name, size_bytes=state.size_bytes, unique=digest)
        workspace = self._workspace().resolve()
        target = self._inbox() / storage.storage_name(media, _ACCOUNT)

        def keep() -> Media:
            path = _keep(state.part, target, workspace, digest)
            return replace(storage.with_file_facts(media, path, workspace), unique=None)

        return await file_io.in_thread(keep)

    async def _give_up_idle(self) -> None:
        before = self._clock() - _IDLE_TIMEOUT_S
        for upload, state in tuple(self._uploads.items()):
            if state.used_at < before and not state.lock.locked():
                del self._uploads[upload]
                await _discard(state)
        for upload, state in tuple(self._uploads.items()):
            # Keep a complete upload for a client that asks again, as long as there is room.
            if state.media is not None and len(self._uploads) >= _MAX_UPLOADS:
                del self._uploads[upload]


def is_inbox_path(path: str) -> bool:
    """Return whether an upload may have this path, which is directly in the owner's inbox."""
    folder, _, name = path.rpartition("/")
    return folder == INBOX_FOLDER and storage.is_stored_name(name)


def _clean_name(name: str) -> str:
    """Return the last part of a path of any system, without invisible characters."""
    base = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return escape_line(base[:_NAME_CHARS]) or t("file")


def _decoded(data: str) -> bytes:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise KoreError(t("a part of a file is not base64")) from None
    if not 0 < len(content) <= PART_BYTES:
        raise KoreError(
            t(
                "found a part of {size:,} bytes, expected 1 to {most:,}",
                size=len(content),
                most=PART_BYTES,
            )
        )
    return content


def _write_at(part: Path, offset: int, content: bytes) -> None:
    with open_folder_beneath(part.parent, create=True) as folder:
        fd = os.open(part.name, _WRITTEN, 0o600, dir_fd=folder)
        with open(fd, "wb", buffering=0) as file:
            os.ftruncate(fd, offset)
            file.seek(offset)
            view = memoryview(content)
            while view:
                view = view[file.write(view) :]


def _keep(part: Path, target: Path, workspace: Path, digest: str) -> Path:
    """Move a complete file to its place next to others of its name. Raises `OSError`."""
    for path in storage.places(target):
        if not os.path.lexists(path):
            storage.keep_part(part, path, workspace)
            return path
        if _digest_of(path) == digest:
            os.utime(path, follow_symlinks=False)
            storage.discard(part)
            return path
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target.name)


def _digest_of(path: Path) -> str | None:
    """Return the digest, or None if it is not an ordinary file."""
    with open_folder_beneath(path.parent) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            with open(os.open(path.name, flags, dir_fd=folder), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None


async def _discard(state: _Upload) -> None:
    # Files that cannot be deleted now are deleted by the inbox cleanup.
    with suppress(OSError):
        await asyncio.to_thread(storage.discard, state.part)
