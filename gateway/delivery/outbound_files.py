"""Copies of outgoing files, unchanged until they are sent.

A copy is private to Kore (0600). It is deleted once its delivery or failure is on record; the next
start removes copies that a crash left behind. If a chat rejects files, their message becomes text.
"""

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from agent.errors import ToolError
from agent.i18n import t
from agent.security.files import file_io
from agent.text.media_types import sniff_image_type
from gateway.channels.base import (
    Channel,
    ChatUnreachable,
    MessageRefused,
    NotSent,
    SendError,
    SupportsMedia,
    SupportsWholeAnswers,
)
from gateway.core.link_defusing import defuse_part
from gateway.core.messages import FileKind, OutboundFile, OutboundMessage, OutboundPart
from gateway.core.platform_limits import FileLimits
from gateway.store.files.port import FileStoreError, StoredFileDamaged, StoredFileMissing
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import outbox

if TYPE_CHECKING:
    from gateway.store.files.file_store import FileStore


log = logging.getLogger(__name__)

FOLDER = "outgoing"
_COPY = re.compile(r"[0-9a-f]{32}")
_KINDS: dict[str, FileKind] = {
    ".mp4": "video",
    ".mp3": "audio",
    ".m4a": "audio",
    ".ogg": "voice",
    ".gif": "animation",
}


class OutgoingFiles:
    """Copies of files in a folder of this machine, until they are sent.

    With `shared`, other machines can send them too; each shared copy belongs to one message. With
    `sends` false, this process sends nothing itself and deletes its local copy after sharing.
    """

    def __init__(
        self, folder: Path, shared: "FileStore | None" = None, *, sends: bool = True
    ) -> None:
        self._sends = sends
        self._folder = folder
        self._shared = shared

    async def snapshot(self, path: Path, limits: FileLimits) -> OutboundFile:
        """Copy the file at the real `path` for one message. Raises `ToolError`."""
        copy = await asyncio.to_thread(snapshot_file, path, self._folder, limits)
        try:
            return await self._share(copy)
        except FileStoreError as exc:
            raise ToolError(f"The file cannot be sent now: {exc}") from exc

    async def write(self, name: str, data: bytes, kind: FileKind) -> OutboundFile:
        """Write `data` to a copy for one message. Raises `OSError` and `FileStoreError`."""
        path = await asyncio.to_thread(write_snapshot, data, self._folder)
        return await self._share(OutboundFile(name, str(path), None, kind, len(data)))

    async def bring_here(self, message: OutboundMessage) -> OutboundMessage:
        """Return the message with its files copied to this machine. Raises `SendError`."""
        content = message.content
        if self._shared is None or all(file.digest is None for file in content.files):
            return message
        files = await asyncio.to_thread(self._bring_all, content.files)
        return replace(message, content=replace(content, files=files))

    async def delete(self, files: Sequence[OutboundFile]) -> None:
        """Delete the files of messages that were sent or given up."""
        delete_snapshots(files)
        if self._shared is not None and any(file.digest for file in files):
            await asyncio.to_thread(self._delete_shared, files)

    async def _share(self, file: OutboundFile) -> OutboundFile:
        """Upload the copy to the shared store.

        Raises `FileStoreError` after deleting the copy.
        """
        if self._shared is None or file.path is None:
            return file
        path = Path(file.path)
        try:
            digest = await asyncio.to_thread(self._shared.put, path, path.name)
        except BaseException:
            delete_snapshots([file])
            raise
        if not self._sends:
            delete_snapshots([file])
        return replace(file, digest=digest)

    def _bring_all(self, files: Sequence[OutboundFile]) -> tuple[OutboundFile, ...]:
        try:
            return tuple(map(self._bring, files))
        except (StoredFileMissing, StoredFileDamaged) as exc:
            raise MessageRefused(str(exc)) from exc
        except FileStoreError as exc:
            raise NotSent(str(exc)) from exc
        except OSError as exc:
            raise NotSent(f"a file cannot be copied here: {exc.strerror}") from exc

    def _bring(self, file: OutboundFile) -> OutboundFile:
        if self._shared is None or file.path is None or file.digest is None:
            return file
        name = Path(file.path).name
        if not _COPY.fullmatch(name):
            raise MessageRefused(f"{name!r} is no copy of a file")
        copy = self._folder / name
        if not copy.is_file():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            part = self._folder / f"{name}.{secrets.token_hex(4)}"
            try:
                with _new_file(part) as target:
                    self._shared.fetch(file.digest, target, file.size_bytes, name)
                os.replace(part, copy)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        return replace(file, path=str(copy))

    def _delete_shared(self, files: Sequence[OutboundFile]) -> None:
        assert self._shared is not None
        for file in files:
            if file.path is None or file.digest is None:
                continue
            name = Path(file.path).name
            if _COPY.fullmatch(name):
                # The copy may have been fetched for another machine's message.
                with suppress(OSError):
                    (self._folder / name).unlink(missing_ok=True)
            try:
                self._shared.delete(file.digest, name)
            except FileStoreError as exc:
                log.warning("a sent file is deleted later: %s", exc)


def snapshot_file(path: Path, folder: Path, limits: FileLimits) -> OutboundFile:
    """Copy the file at the real `path` for one message. Raises `ToolError`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / secrets.token_hex(16)
    try:
        with _new_file(copy) as target:
            size, head = file_io.copy(path, target, limits.file_bytes)
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
    kind = _kind_of(path, size, head, limits.photo_bytes)
    return OutboundFile(path.name, str(copy), None, kind, size)


def write_snapshot(data: bytes, folder: Path) -> Path:
    """Write `data` to a copy for one message. Raises `OSError`."""
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / secrets.token_hex(16)
    with _new_file(copy) as target:
        target.write(data)
        target.flush()
        os.fsync(target.fileno())
    return copy


async def send_message(channel: Channel, message: OutboundMessage) -> str:
    """Send a message with the method for its content; return the platform's id.

    Raises `SendError`.
    """
    if not message.content.files:
        return await channel.send(message)
    if not isinstance(channel, SupportsMedia):
        raise MessageRefused(f"{channel.name} cannot send files")
    return await channel.send_files(message)


def delete_snapshots(files: Iterable[OutboundFile]) -> None:
    """Delete copies; ignore paths outside the folder for copies."""
    for file in files:
        if file.path is not None and Path(file.path).parent.name == FOLDER:
            with suppress(OSError):
                os.unlink(file.path)


def paths_to_send(tx: Transaction) -> set[str | None]:
    """Return the paths of the copies that messages still need."""
    return {file.path for file in waiting(tx)}


def delete_orphans(folder: Path, needed: Collection[str | None], *, before: float = inf) -> None:
    """Delete the copies that are not needed and were made before `before` (Unix time).

    Newer copies stay, because another process makes a copy before it stores the message.
    """
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if str(path) not in needed:
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < before:
                    path.unlink()


def shared_names(tx: Transaction, shared: "FileStore") -> set[str]:
    """Return the shared store's names for files of messages still to be sent."""
    return {
        shared.name_of(file.digest, Path(file.path).name)
        for file in waiting(tx)
        if file.digest is not None and file.path is not None
    }


def waiting(tx: Transaction) -> set[OutboundFile]:
    """Return the files of messages still to be sent."""
    return {OutboundFile(**file) for file in outbox.files_to_send(tx)}


def _new_file(path: Path) -> BinaryIO:
    """Create a file that only its owner can access."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return open(os.open(path, flags, 0o600), "wb")


def _kind_of(path: Path, size_bytes: int, head: bytes, photo_bytes: int) -> FileKind:
    if sniff_image_type(head) in ("image/jpeg", "image/png", "image/webp"):
        return "photo" if size_bytes <= photo_bytes else "document"
    return _KINDS.get(path.suffix.lower(), "document")


def without_files(
    channel: Channel, message: OutboundMessage, error: SendError
) -> Sequence[OutboundPart]:
    """Return the message as text, at least one part.

    A file with the rest of a long answer becomes messages; other files are listed by name.
    """
    content = message.content
    is_answer = message.kind == "final" and len(content.files) == 1
    if is_answer and isinstance(channel, SupportsWholeAnswers):
        (file,) = content.files
        if file.text is not None and (rest := channel.render_whole(file.text)[message.part :]):
            # The text of a file is not a field of a message, so its links are not defused yet.
            return [defuse_part(part, is_markdown=False, is_read=False) for part in rest]
    names = ", ".join(file.name for file in content.files)
    note = (
        t("📎 Not sent, because this chat does not allow it: {names}.", names=names)
        if isinstance(error, ChatUnreachable)
        else t("📎 Could not be sent: {names}.", names=names)
    )
    text = f"{content.text}\n\n{note}" if content.text else note
    return [replace(content, text=text, files=())]
