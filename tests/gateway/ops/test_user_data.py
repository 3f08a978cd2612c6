"""Deletion and export of a person's files, beyond the cases in the end-to-end tests."""

import os
import resource
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import KoreError
from gateway.core.messages import OutboundFile, OutboundPart, Route, Sender
from gateway.delivery.outbound_files import FOLDER
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.folder import FolderObjects
from gateway.store.repositories import preferences
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests import postgres_server
from tests.deep_folders import deep_folders
from tests.gateway.parts import Parts, chat_message, opened


async def nothing() -> None:
    return None


async def queue_file(parts: Parts, who: str) -> Path:
    """Store a message of this person and a file that waits to be sent to them."""
    copy = parts.database.folder / FOLDER / f"copy{who}"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"theirs")
    message = chat_message("hi", who, sender=Sender(who))
    await parts.database.transact(
        inbox.accept, InboxBatch("chat", "bot", 0.0), [InboxEntry(message, "read")]
    )
    content = OutboundPart("", files=(OutboundFile("a.txt", str(copy), size_bytes=6),))
    reply = OutgoingReply(f"file:{who}", Route("chat", "bot", who), [content])
    await parts.database.transact(outbox.put, None, [reply], 0.0)
    return copy


async def test_outgoing_files_are_deleted_with_their_recipient(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        gone, result = await queue_file(parts, "71"), await queue_file(parts, "72")
        user_data = parts.app.user_data()
        await user_data.delete("chat:71", copies=False)
        assert not gone.exists()
        assert result.exists()


async def test_folders_of_a_person_are_deleted_with_their_content(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        await queue_file(parts, "71")
        theirs = [parts.workspace / top / "chat" / "71" for top in ("memory", "inbox")]
        other = parts.workspace / "inbox" / "chat" / "72"
        for folder in (*theirs, other):
            (folder / "older").mkdir(parents=True)
            (folder / "older" / "a.txt").write_text("x")
        await parts.app.user_data().delete("chat:71", copies=False)
        assert [folder.exists() for folder in theirs] == [False, False]
        assert (other / "older" / "a.txt").exists()


async def test_interrupted_deletion_is_completed(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        await queue_file(parts, "71")
        theirs = parts.workspace / "memory" / "chat" / "71" / "MEMORY.md"
        theirs.parent.mkdir(parents=True)
        theirs.write_text("x")

        async def cut_off() -> None:
            raise KeyboardInterrupt

        user_data = parts.app.user_data()
        with pytest.raises(KeyboardInterrupt):
            await replace(user_data, flush_audit=cut_off).delete("chat:71", copies=False)
        assert theirs.exists()
        await user_data.finish()
        assert not theirs.parent.exists()
        assert await parts.database.transact(preferences.get_state, preferences.DELETION) is None
        if postgres_server.engine() == "sqlite":
            assert b"chat:71" not in (tmp_path / "kore.db").read_bytes()
        await user_data.finish()


async def test_failed_export_leaves_no_partial_file(tmp_path: Path) -> None:
    async with opened(tmp_path, []) as parts:
        await queue_file(parts, "71")
        user_data, target = parts.app.user_data(), tmp_path / "all.zip"
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Importing now would leave truncated files in the bytecode cache for later processes.
        sys.dont_write_bytecode = True
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            with pytest.raises(KoreError, match="nothing was exported"):
                await user_data.export("chat:71", target)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            sys.dont_write_bytecode = False
        assert not target.exists()
        assert (await user_data.export("chat:71", target))["parts"]


async def test_deep_tree_is_exported_as_far_as_paths_reach_and_deleted_completely(
    tmp_path: Path,
) -> None:
    """The deepest folders are beyond the limits of paths and of recursion."""
    async with opened(tmp_path, []) as parts:
        await queue_file(parts, "71")
        theirs = parts.workspace / "inbox" / "chat" / "71"
        with deep_folders(theirs):
            (theirs / os.fsdecode(b"odd\xff.txt")).write_text("x")
            (theirs / "z.txt").write_text("last")
            user_data, target = parts.app.user_data(), tmp_path / "all.zip"
            assert (await user_data.summarize("chat:71"))["files"] == 4
            made = await user_data.export("chat:71", target)
            assert made["left_out"] == 2
            with zipfile.ZipFile(target) as packed:
                assert packed.testzip() is None
                names = [name for name in packed.namelist() if name.startswith("inbox/")]
                assert names == ["inbox/first.txt", "inbox/z.txt"]
                assert packed.read("inbox/z.txt") == b"last"
            gone = await user_data.delete("chat:71", copies=False)
            assert gone["left_out"] == 0
            assert not theirs.exists()


async def test_files_of_the_owner_are_deleted_but_not_channel_folders(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, []) as parts:
        inbox = parts.workspace / "inbox"
        for path in ("a.txt", "own/b.txt", "own/telegram/c.txt", "telegram/7/d.txt"):
            (inbox / path).parent.mkdir(parents=True, exist_ok=True)
            (inbox / path).write_text("x")
        user_data, target = parts.app.user_data(), tmp_path / "all.zip"
        assert (await user_data.summarize("cli:me"))["files"] == 3
        await user_data.export("cli:me", target)
        with zipfile.ZipFile(target) as packed:
            names = [name for name in packed.namelist() if name.startswith("inbox/")]
        assert names == ["inbox/a.txt", "inbox/own/b.txt", "inbox/own/telegram/c.txt"]
        await user_data.delete("cli:me", copies=False)
        assert [path.name for path in inbox.iterdir()] == ["telegram"]
        assert (inbox / "telegram" / "7" / "d.txt").exists()


async def test_undeletable_files_are_deleted_later(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    files = SharedFiles(FolderObjects(shared))
    async with opened(tmp_path, [], files=files) as parts:
        await queue_file(parts, "71")
        theirs, other = (files.inbox(f"inbox/chat/{who}").put(b"x") for who in ("71", "72"))
        user_data = parts.app.user_data()
        shared.rename(tmp_path / "unmounted")
        with pytest.raises(KoreError, match="all but files") as caught:
            await user_data.delete("chat:71", copies=False)
        assert "next start" in (caught.value.hint or "")
        (tmp_path / "unmounted").rename(shared)
        assert files.inbox("inbox/chat/71").exists(theirs)
        assert await user_data.finish() == 0
        assert not files.inbox("inbox/chat/71").exists(theirs)
        assert files.inbox("inbox/chat/72").exists(other)
