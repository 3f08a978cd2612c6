"""Downloads that stored messages wait for: their files, and the rest of their album."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from agent.errors import is_disk_full
from agent.i18n import mark_for_translation, t, use_locale
from gateway.channels.base import Accept, NotFetched, SupportsDownloads
from gateway.config.sections import MediaSection
from gateway.core.channel_events import Batch
from gateway.core.markdown import escape_markdown
from gateway.core.messages import InboundMessage, Media
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.media.storage import (
    InboxPaths,
    delete_expired_daily,
    discard,
    has_room,
    places,
    storage_name,
    store_upload,
    with_file_facts,
)
from gateway.store.errors import SealBroken, StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import codecs
from gateway.store.repositories.delivery import pending_media
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.delivery.pending_media import PendingMessage

if TYPE_CHECKING:
    from gateway.media.shared_inbox import SharedInbox
    from gateway.store.files.file_store import SharedFiles

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_CONCURRENT = 4
# Time after a start in which the rest of an album may be delivered again.
ALBUM_TIMEOUT_S = 3.0
_RETRY_INTERVALS_S = (1.0, 3.0, 10.0, 30.0)
# About ten minutes, during which the chat waits for its file.
_FULL_RETRY_INTERVALS_S = (5.0, 10.0, 20.0, 40.0, *[60.0] * 9)
_STORE_RETRY_INTERVAL_S = 5.0
_NOBODY = mark_for_translation("downloads from its source are not supported")
_NOT_KEPT = mark_for_translation("it could not be saved to disk ({reason})")
_FULL = mark_for_translation("the disk is nearly full")
# Names for media without a name.
_CALLED = {
    "photo": mark_for_translation("the photo"),
    "live_photo": mark_for_translation("the photo"),
    "video": mark_for_translation("the video"),
    "animation": mark_for_translation("the animation"),
    "video_note": mark_for_translation("the video message"),
    "voice": mark_for_translation("the voice message"),
    "audio": mark_for_translation("the audio file"),
    "sticker": mark_for_translation("the sticker"),
    "document": mark_for_translation("the file"),
}
# No one is left to notify.
_FORGOTTEN = "the sender's data was deleted"
_BROKE = mark_for_translation("an internal error occurred")


def shared_inbox(
    media: MediaSection, files: "SharedFiles | None", inboxes: InboxPaths
) -> "SharedInbox | None":
    """Return the inbox for received files that other machines can read, or None."""
    if files is None:
        return None
    from gateway.media.shared_inbox import SharedInbox

    return SharedInbox(files, inboxes, media.max_file_mb * 2**20)


class MediaDownloader:
    """Downloader with one task per waiting row and a few downloads at a time; polls never wait.

    A download that is interrupted by a kill starts again: the row waits until all files have
    arrived, or until a sentence explains why one is missing. `media` limits the size of files and
    the time before they expire; `transcribe` transcribes speech; `wake` wakes a lane whose row no
    longer waits; `shared` gives files to other machines. `waits_s` are the pauses between attempts,
    `room_waits_s` those while the disk or the quota is full.
    """

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        renderer: ReplyRenderer,
        sender: OutboxSender,
        languages: UserLanguages,
        inboxes: InboxPaths,
        wake: Callable[[str], None],
        media: MediaSection,
        transcribe: Callable[[Media, Path], Awaitable[Media]] | None = None,
        shared: "SharedInbox | None" = None,
        waits_s: tuple[float, ...] = _RETRY_INTERVALS_S,
        room_waits_s: tuple[float, ...] = _FULL_RETRY_INTERVALS_S,
    ) -> None:
        self._database = database
        self._renderer = renderer
        self._sender = sender
        self._languages = languages
        self._inboxes = inboxes
        self._wake = wake
        self._limit_bytes = media.max_file_mb * 2**20
        self._keep_days = media.keep_days
        self._transcribe = transcribe
        self._shared = shared
        self._waits_s = waits_s
        self._room_waits_s = room_waits_s
        self._changed = asyncio.Event()
        # True if there may be parts of albums that expire soon.
        self._has_early_updates = True
        self._busy_numbers: set[int] = set()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        # Locks of files being fetched: a photo and a reply to it bring the same file.
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    def wrap_accept(self, accept: Accept) -> Accept:
        """Return `accept` followed by a search for waiting rows."""

        async def accepted(channel: str, account: str, batch: Batch) -> None:
            await accept(channel, account, batch)
            if any(message.media or message.album for message in batch.messages):
                self._has_early_updates |= any(message.follows for message in batch.messages)
                self.notify()

        return accepted

    def notify(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled, beginning with rows left by an earlier process."""
        await self._transact(pending_media.begin_again, time.time() + ALBUM_TIMEOUT_S)
        self.notify()
        rest_s: float | None = None
        async with asyncio.TaskGroup() as group:
            if self._keep_days is not None:
                swept = delete_expired_daily(self._inboxes.workspace, self._keep_days)
                group.create_task(swept, name="sweeper of the inbox")
            if self._shared is not None:
                from gateway.media.shared_inbox import sweep_daily

                sweeping = sweep_daily(self._shared.files, self._database, self._keep_days)
                group.create_task(sweeping, name="sweeper of shared files")
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest_s):
                        await self._changed.wait()
                self._changed.clear()
                if self._has_early_updates:
                    self._has_early_updates = False
                    rest_s = await self._transact(pending_media.forget_early, time.time())
                    self._has_early_updates |= rest_s is not None
                for seq in await self._transact(pending_media.rows):
                    if seq not in self._busy_numbers:
                        self._busy_numbers.add(seq)
                        group.create_task(self._complete_message(seq), name=f"files of {seq}")

    async def _complete_message(self, seq: int) -> None:
        """Work on a row until it waits for nothing."""
        try:
            while (row := await self._transact(pending_media.find, seq)) is not None:
                if (media := row.awaited) is not None:
                    await self._settle(row, media)
                    continue
                # Limit the wait in case the clock was set back.
                await asyncio.sleep(min(max(row.ready_at - time.time(), 0.0), ALBUM_TIMEOUT_S))
                if lane := await self._transact(pending_media.release, row):
                    self._wake(lane)
        except SealBroken:
            # Messages after an unreadable row must not wait for it.
            if lane := await self._transact(codecs.bury, seq):
                self._wake(lane)
        finally:
            self._busy_numbers.discard(seq)
            self.notify()

    async def _settle(self, row: PendingMessage, media: Media) -> None:
        replies = []
        try:
            outcome = await self._fetch_with_retries(row, media)
        except NotFetched as exc:
            log.warning("skipped a %s of message %d: %s", media.kind, row.seq, exc)
            # The file was received even if it was not understood.
            outcome = replace(exc.media or media, trouble=str(exc))
            if not media.quoted:
                with use_locale(self._languages.of(row.message)):
                    text = _failure_notice(media, exc)
                replies.append(self._failure_reply(row.message, media, text))
        await self._transact(pending_media.settle, row.seq, outcome, replies, time.time())
        if replies:
            self._sender.wake(replies[0].route.lane)

    async def _fetch_with_retries(self, row: PendingMessage, media: Media) -> Media:
        """Fetch a file. Raises `NotFetched` if it is unavailable."""
        waits_s, room_waits_s = deque(self._waits_s), deque(self._room_waits_s)
        has_warned = False
        while True:
            trying = asyncio.create_task(self._try(row, media))
            try:
                await asyncio.wait({trying})
            finally:
                trying.cancel()
                await asyncio.wait({trying})
            match None if trying.cancelled() else trying.exception():
                case None:
                    return trying.result()
                case NotFetched(is_retryable=True) if waits_s:
                    await asyncio.sleep(waits_s.popleft())
                case NotFetched() as exc:
                    raise exc
                case OSError() as exc if is_disk_full(exc):
                    # The platform does not deliver the file again, so it waits for room. A quota
                    # may stay used up, and the messages behind the file must not wait for that.
                    if not room_waits_s:
                        raise NotFetched(_FULL) from exc
                    if not has_warned:
                        log.error("a file of message %d waits for disk space: %s", row.seq, exc)
                    has_warned = True
                    await asyncio.sleep(room_waits_s.popleft())
                case OSError() as exc:
                    reason = exc.strerror or type(exc).__name__
                    raise NotFetched(_NOT_KEPT, reason=reason) from exc
                case bug:
                    # The failure costs this file, not the chat.
                    log.error(
                        "downloading a file of %s failed", row.message.session_key, exc_info=bug
                    )
                    raise NotFetched(_BROKE) from bug

    async def _try(self, row: PendingMessage, media: Media) -> Media:
        """Fetch a file once. Raises `NotFetched` and `OSError`."""
        message = row.message
        channel = self._renderer.channel(message.route)
        if channel is None or not isinstance(channel, SupportsDownloads):
            raise NotFetched(_NOBODY)
        workspace = self._inboxes.workspace.resolve()
        folder = workspace / self._inboxes.inbox(message).relative_to(self._inboxes.workspace)
        path = folder / storage_name(media, message.account)
        async with self._locks.setdefault(path, asyncio.Lock()), self._slots:
            local = await self._local_copy(channel, row.seq, media, path, workspace)
        if self._shared is not None:
            local = await self._share(self._shared, row.seq, local)
        try:
            # Transcribe outside the lock, because this may take minutes.
            return (
                await self._transcribe(local, workspace / (local.path or ""))
                if self._transcribe
                else local
            )
        except NotFetched as exc:
            exc.media = local
            raise

    async def _local_copy(
        self, channel: SupportsDownloads, seq: int, media: Media, path: Path, workspace: Path
    ) -> Media:
        """Return the file at `path` or a free place next to it; download it unless it exists."""
        path, existing = await asyncio.to_thread(_place, media, path, workspace)
        if existing is not None:
            return existing
        if not has_room(path.parent, media.size_bytes or self._limit_bytes):
            raise NotFetched(_FULL)
        if await self._transact(pending_media.is_forgotten, seq):
            raise NotFetched(_FORGOTTEN)
        await store_upload(
            path, workspace, lambda file: channel.fetch(media, file, self._limit_bytes)
        )
        # Check after the file is written, so that a later deletion finds it.
        if await self._transact(pending_media.is_forgotten, seq):
            await asyncio.to_thread(discard, path)
            raise NotFetched(_FORGOTTEN)
        return await asyncio.to_thread(with_file_facts, media, path, workspace)

    async def _share(self, shared: "SharedInbox", seq: int, local: Media) -> Media:
        """Put the file where the machine that answers can fetch it."""
        media = await shared.put(local)
        # Check as in `_local_copy`.
        if await self._transact(pending_media.is_forgotten, seq):
            await shared.delete(media)
            raise NotFetched(_FORGOTTEN)
        return media

    async def _transact(
        self, work: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a transaction until the database accepts it. Raises `SealBroken`."""
        while True:
            try:
                return await self._database.transact(work, *args, **kwargs)
            except SealBroken:
                raise
            except StoreError as exc:
                log.error("downloads are delayed: %s", exc)
                await asyncio.sleep(_STORE_RETRY_INTERVAL_S)

    def _failure_reply(self, message: InboundMessage, media: Media, text: str) -> OutgoingReply:
        return OutgoingReply(
            delivery_id=f"media:{message.route.lane}:{message.event_id}:{media.unique}",
            route=message.route,
            parts=self._renderer.render(message.route, text),
            kind="notice",
            event_id=message.event_id,
        )


def _failure_notice(media: Media, why: NotFetched) -> str:
    what = (
        escape_markdown(media.name)
        if media.name
        else t(_CALLED.get(media.kind, _CALLED["document"]))
    )
    if why.media is not None:
        return t(
            "⚠️ I can't transcribe {what}: {why}.", what=what, why=escape_markdown(why.translated)
        )
    return t("⚠️ I can't download {what}: {why}.", what=what, why=escape_markdown(why.translated))


def _place(media: Media, path: Path, workspace: Path) -> tuple[Path, Media | None]:
    """Return the place of the file if it exists, else a place that no other file occupies."""
    for at in places(path):
        existing = _existing_file(media, at, workspace)
        if existing is not None or not os.path.lexists(at):
            break
    return at, existing


def _existing_file(media: Media, path: Path, workspace: Path) -> Media | None:
    """Return the file if it exists."""
    try:
        file = with_file_facts(media, path, workspace)
    except OSError:
        return None
    if media.size_bytes not in (None, file.size_bytes):
        return None
    with suppress(OSError):
        # The file was sent again, so keep it as long as a new one.
        os.utime(path, follow_symlinks=False)
    return file
