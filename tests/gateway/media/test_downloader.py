"""Downloads while several messages wait for files."""

import asyncio
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gateway.access.control import folder_name
from gateway.channels.base import NotFetched
from gateway.config.sections import MediaSection
from gateway.core.channel_events import Batch
from gateway.core.messages import InboundMessage, Media
from gateway.media.downloader import MAX_CONCURRENT, MediaDownloader
from gateway.media.storage import InboxPaths, storage_name
from gateway.store.cipher import Cipher
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from tests.fakes.platform import Platform
from tests.gateway import stored
from tests.gateway.media.inboxes import Inboxes
from tests.gateway.parts import Parts, cancel_and_wait, chat_message, opened, wait_until

DATA = b"x" * 100


class SlowPlatform(Platform):
    """Platform that sends every file in two halves, the second once `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.fetches = 0

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        self.fetches += 1
        into.write(DATA[:50])
        await self.go.wait()
        into.write(DATA[50:])


def downloader(
    parts: Parts, inboxes: InboxPaths, wake: Callable[[str], None], **more: Any
) -> MediaDownloader:
    return MediaDownloader(
        database=parts.database,
        renderer=parts.app.renderer,
        sender=parts.sender,
        languages=parts.app.languages,
        inboxes=inboxes,
        wake=wake,
        media=MediaSection(),
        **more,
    )


async def store_messages(parts: Parts, *messages: InboundMessage) -> None:
    arrival = InboxBatch("chat", "bot", 0.0)
    await parts.database.transact(
        inbox.accept, arrival, [InboxEntry(message) for message in messages]
    )


async def test_file_of_two_simultaneous_messages_is_downloaded_once(tmp_path: Path) -> None:
    platform = SlowPlatform()
    photo = Media("photo", size_bytes=len(DATA), remote="f", unique="u")
    async with opened(tmp_path, [], platform=platform) as parts:
        media = Media("photo", size_bytes=len(DATA), remote="f", unique="u", quoted=True)
        await store_messages(
            parts,
            chat_message("[photo]", media=(photo,)),
            chat_message("what is it?", media=(media,)),
        )
        woken: list[str] = []
        loader = downloader(parts, Inboxes(parts.workspace), woken.append)
        work = asyncio.create_task(loader.run())
        await wait_until(lambda: platform.fetches)
        # Leave time for a second download to begin, if there is one.
        for _ in range(20):
            await parts.transaction_ends()
            await asyncio.sleep(0.005)
        platform.go.set()
        await wait_until(lambda: len(woken) == 2)
        await cancel_and_wait(work)
        (file,) = (parts.workspace / "inbox").iterdir()
        assert file.read_bytes() == DATA
        assert platform.fetches == 1
        assert await parts.stored("outbox", "body") == []


async def test_slow_transcription_does_not_delay_other_files(tmp_path: Path) -> None:
    platform = SlowPlatform()
    platform.go.set()
    results: list[str | None] = []

    async def transcribe(media: Media, path: Path) -> Media:
        results.append(media.unique)
        if media.kind == "voice":
            await asyncio.Event().wait()
        return media

    async with opened(tmp_path, [], platform=platform) as parts:
        voices = [
            chat_message("[voice]", str(n), media=(Media("voice", remote="f", unique=f"v{n}"),))
            for n in range(MAX_CONCURRENT + 1)
        ]
        woken: list[str] = []
        inboxes = Inboxes(parts.workspace)
        loader = downloader(parts, inboxes, woken.append, transcribe=transcribe)
        await store_messages(parts, *voices)
        work = asyncio.create_task(loader.run())
        await wait_until(lambda: len(results) == len(voices))
        await store_messages(
            parts, chat_message("[photo]", "9", media=(Media("photo", remote="f", unique="p"),))
        )
        loader.notify()
        await wait_until(lambda: woken)
        assert woken == ["chat:bot:9"]
        await cancel_and_wait(work)


async def test_changed_file_is_kept_and_the_download_stored_next_to_it(
    tmp_path: Path,
) -> None:
    platform = SlowPlatform()
    platform.go.set()
    async with opened(tmp_path, [], platform=platform) as parts:
        sent = Media("document", name="a.txt", size_bytes=len(DATA), remote="f", unique="u")
        workspace = parts.workspace.resolve()
        changed = workspace / "inbox" / storage_name(sent, "bot")
        changed.parent.mkdir()
        changed.write_bytes(b"changed")
        woken: list[str] = []
        loader = downloader(parts, Inboxes(workspace), woken.append)
        work = asyncio.create_task(loader.run())
        for _ in range(2):
            await store_messages(parts, chat_message("[document]", media=(sent,)))
            loader.notify()
            await wait_until(lambda: woken)
            woken.clear()
        await cancel_and_wait(work)
        assert changed.read_bytes() == b"changed"
        (sibling,) = set(changed.parent.iterdir()) - {changed}
        assert sibling.read_bytes() == DATA
        assert sibling.name == changed.name.replace(".txt", "-2.txt")
        assert platform.fetches == 1


class BreakingPlatform(SlowPlatform):
    """Platform whose first download fails halfway once `go` is set; the next succeeds."""

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        await super().fetch(media, into, limit_bytes)
        if self.fetches == 1:
            raise NotFetched("the line broke", is_retryable=True)


class Private(Inboxes):
    """Inboxes with a folder for each person, or one folder for a group."""

    def __init__(self, workspace: Path, group: bool) -> None:
        super().__init__(workspace)
        self.group = group

    def inbox(self, message: InboundMessage) -> Path:
        who = "group" if self.group else folder_name(message.sender.id)
        return self.workspace / "inbox" / "chat" / who


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("make_platform", [SlowPlatform, BreakingPlatform])
async def test_download_of_a_deleted_person_is_discarded(
    tmp_path: Path, make_platform: Callable[[], SlowPlatform], group: bool
) -> None:
    platform = make_platform()
    async with opened(tmp_path, [], platform=platform) as parts:
        workspace = parts.workspace.resolve()
        photo = Media("photo", size_bytes=len(DATA), remote="f", unique="u")
        await store_messages(parts, chat_message("[photo]", media=(photo,)))
        inboxes = Private(workspace, group)
        loader = downloader(parts, inboxes, lambda lane: None, waits_s=(0.0, 0.0))
        work = asyncio.create_task(loader.run())
        await wait_until(lambda: platform.fetches)
        await parts.app.user_data().delete("chat:7", copies=False)
        platform.go.set()
        await wait_until(lambda: not loader._busy_numbers)
        await cancel_and_wait(work)
        assert [path for path in (workspace / "inbox").rglob("*") if path.is_file()] == []
        assert await parts.stored("outbox", "body") == []


async def test_unclaimed_part_of_an_album_is_dropped_after_a_while(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        loader = downloader(parts, Inboxes(tmp_path), lambda lane: None)
        work = asyncio.create_task(loader.run())
        accept = loader.wrap_accept(parts.bus.accept)
        photo = Media("photo", remote="f", unique="u")
        part = chat_message("[photo]", media=(photo,), album="1:9", follows=True)
        await accept("chat", "bot", Batch([part]))
        assert await parts.count("inbox") == 1
        await parts.until_count(0, "inbox")
        await cancel_and_wait(work)


class FullPlatform(SlowPlatform):
    """Platform that reports `error_number` for each fetched file until `has_room`."""

    has_room = False

    def __init__(self, error_number: int) -> None:
        super().__init__()
        self.error_number = error_number

    async def fetch(self, media: Media, into: BinaryIO, limit_bytes: int) -> None:
        if not self.has_room:
            self.fetches += 1
            raise OSError(self.error_number, os.strerror(self.error_number))
        await super().fetch(media, into, limit_bytes)


# Without free inodes, a file system reports ENOSPC too.
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
async def test_file_waits_for_room_on_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error_number: int
) -> None:
    platform = FullPlatform(error_number)
    platform.go.set()
    async with opened(tmp_path, [], platform=platform) as parts:
        photo = Media("photo", size_bytes=len(DATA), remote="f", unique="u")
        await store_messages(parts, chat_message("[photo]", media=(photo,)))
        woken: list[str] = []
        inboxes = Inboxes(parts.workspace)
        waits_s = (0.01,) * 10_000
        loader = downloader(parts, inboxes, woken.append, waits_s=(), room_waits_s=waits_s)
        work = asyncio.create_task(loader.run())
        await wait_until(lambda: platform.fetches > 2)
        assert woken == []
        platform.has_room = True
        await wait_until(lambda: woken)
        await cancel_and_wait(work)
        (file,) = (parts.workspace / "inbox").iterdir()
        assert file.read_bytes() == DATA
    assert caplog.text.count("waits for disk space") == 1


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
async def test_message_continues_without_a_file_if_the_disk_stays_full(
    tmp_path: Path, error_number: int
) -> None:
    platform = FullPlatform(error_number)
    async with opened(tmp_path, [], platform=platform) as parts:
        photo = Media("photo", size_bytes=len(DATA), remote="f", unique="u")
        await store_messages(parts, chat_message("[photo]", media=(photo,)))
        woken: list[str] = []
        inboxes = Inboxes(parts.workspace)
        loader = downloader(parts, inboxes, woken.append, room_waits_s=(0.0, 0.0))
        work = asyncio.create_task(loader.run())
        await wait_until(lambda: woken)
        await cancel_and_wait(work)
        (notice,) = await parts.stored("outbox", "body")
    assert platform.fetches == 3
    assert "the disk is nearly full" in str(notice)


async def test_message_after_a_tampered_one_is_answered(tmp_path: Path) -> None:
    cipher = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
    async with opened(tmp_path, [], cipher=cipher) as parts:
        photo = Media("photo", remote="f", unique="u")
        await store_messages(parts, chat_message("[photo]", media=(photo,)))
        await parts.database.transact(stored.change, "inbox", {"payload": "forged"})
        woken: list[str] = []
        work = asyncio.create_task(downloader(parts, Inboxes(tmp_path), woken.append).run())
        await wait_until(lambda: woken)
        await cancel_and_wait(work)
        assert await parts.stored("inbox", "dead_reason") == [("changed outside of Kore",)]
