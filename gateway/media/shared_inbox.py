"""Received files that any machine can fetch into the inbox of its workspace."""

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO
from weakref import WeakValueDictionary

from agent.context.images import MAX_IMAGES
from agent.i18n import t
from agent.security.files.paths import INBOX_FOLDER
from agent.text.media_types import MAX_PICTURE_BYTES
from agent.types import ImageFile, Message
from agent.undo.blob_store import RETENTION_S
from gateway.core.messages import InboundMessage, Media
from gateway.delivery.outbound_files import shared_names
from gateway.media import storage
from gateway.media.storage import InboxPaths
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.port import FileStoreError
from gateway.store.port import Store

log = logging.getLogger(__name__)

_DAY_S = 86_400.0
# A file is stored before its row, so the cleanup skips files younger than this.
_MIN_ORPHAN_AGE_S = 3_600.0


class SharedInbox:
    """Inbox shared by machines. `limit_bytes` is the maximum size of a received file."""

    def __init__(self, files: SharedFiles, inboxes: InboxPaths, limit_bytes: int) -> None:
        self.files = files
        self._inboxes = inboxes
        self._limit_bytes = limit_bytes
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    async def put(self, media: Media) -> Media:
        """Upload a file from an inbox of this machine.

        If the upload fails, the file stays on this machine only.
        """
        folder, name = _split(media)
        if name is None:
            return media
        path = self._inboxes.workspace.resolve() / folder / name
        try:
            digest = await asyncio.to_thread(self.files.inbox(folder).put, path)
        except (FileStoreError, OSError) as exc:
            log.error("a received file stays on this machine: %s", exc)
            return media
        return replace(media, file_digest=digest)

    async def delete(self, media: Media) -> None:
        """Delete a file from the store. Raises `FileStoreError`."""
        folder, name = _split(media)
        if name is not None and media.file_digest is not None:
            await asyncio.to_thread(self.files.inbox(folder).delete, media.file_digest)

    async def bring(self, messages: Sequence[InboundMessage]) -> list[str]:
        """Fetch files of messages that are missing on this machine.

        Returns an error message for each file that could not be fetched.
        """
        failures = []
        for message in messages:
            for media in message.media:
                folder, name = _split(media)
                if name is None or media.file_digest is None or folder != self._folder_of(message):
                    continue
                limit = media.size_bytes if media.size_bytes is not None else self._limit_bytes
                try:
                    await self._fetch(folder, name, media.file_digest, limit)
                except (FileStoreError, OSError) as exc:
                    log.error("a received file cannot be fetched: %s", exc)
                    reason = str(exc) if isinstance(exc, FileStoreError) else exc.strerror
                    failures.append(
                        t("{path} is not on this machine: {reason}", path=media.path, reason=reason)
                    )
        return failures

    async def bring_pictures(self, messages: Sequence[Message]) -> None:
        """Fetch the pictures for a model request, which omits missing pictures."""
        for picture in islice(_newest_pictures(messages), MAX_IMAGES):
            folder, _, name = picture.path.rpartition("/")
            if _is_stored(folder, name):
                try:
                    await self._fetch(folder, name, picture.digest, MAX_PICTURE_BYTES)
                except (FileStoreError, OSError) as exc:
                    log.info("a picture is left out: %s", exc)

    async def _fetch(self, folder: str, name: str, digest: str, limit_bytes: int) -> None:
        """Fetch a file unless it exists. Raises `FileStoreError` and `OSError`."""
        workspace = self._inboxes.workspace.resolve()
        path = workspace / folder / name
        if await asyncio.to_thread(os.path.lexists, path):
            return
        files = self.files.inbox(folder)

        async def pour(file: BinaryIO) -> None:
            await asyncio.to_thread(files.fetch, digest, file, limit_bytes)

        async with self._locks.setdefault(path, asyncio.Lock()):
            if await asyncio.to_thread(os.path.lexists, path):
                return
            if not await asyncio.to_thread(storage.has_room, path.parent, limit_bytes):
                raise OSError(0, t("the disk is nearly full"))
            with suppress(FileExistsError):
                await storage.store_upload(path, workspace, pour)

    def _folder_of(self, message: InboundMessage) -> str:
        """Return the folder, relative to the workspace."""
        inboxes = self._inboxes
        return str(inboxes.inbox(message).relative_to(inboxes.workspace))


async def sweep_daily(files: SharedFiles, database: Store, keep_days: int | None) -> None:
    """Delete expired files daily until cancelled; for the process that owns the data."""
    rest_s = storage.START_DELAY_S
    while True:
        await asyncio.sleep(rest_s)
        rest_s = _DAY_S
        try:
            if deleted := await sweep(files, database, keep_days, time.time()):
                log.info("deleted %d files of %s that are no longer needed", deleted, files.place)
        except FileStoreError as exc:
            log.warning("old files are deleted later: %s", exc)


async def sweep(files: SharedFiles, database: Store, keep_days: int | None, now: float) -> int:
    """Delete expired files and return their number. Raises `FileStoreError`."""
    needed = await database.transact(shared_names, files.outgoing)

    def delete() -> int:
        deleted = files.outgoing.delete_others(needed, before=now - _MIN_ORPHAN_AGE_S)
        deleted += files.undo.delete_others(before=now - RETENTION_S)
        if keep_days is not None:
            deleted += files.all_inboxes.delete_others(before=now - keep_days * _DAY_S)
        files.objects.discard_unfinished(now - _DAY_S)
        return deleted

    return await asyncio.to_thread(delete)


def _split(media: Media) -> tuple[str, str | None]:
    """Return the folder, relative to the workspace, and the stored name of an inbox file."""
    folder, _, name = (media.path or "").rpartition("/")
    return (folder, name) if _is_stored(folder, name) else ("", None)


def _is_stored(folder: str, name: str) -> bool:
    parts = folder.split("/")
    is_inbox = parts[0] == INBOX_FOLDER and not {"", ".", ".."} & set(parts)
    return is_inbox and storage.is_stored_name(name)


def _newest_pictures(messages: Sequence[Message]) -> Iterator[ImageFile]:
    for message in reversed(messages):
        for part in reversed(message.content):
            if isinstance(part, ImageFile):
                yield part
