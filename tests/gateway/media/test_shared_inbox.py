"""Files received on one machine and needed on another, and cleanup of unused files."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.taint.file_marks import is_marked
from agent.types import ImageFile, Message
from agent.undo.blob_store import RETENTION_S
from gateway.core.messages import InboundMessage, Media, OutboundFile, OutboundPart, Route
from gateway.media.shared_inbox import SharedInbox, sweep
from gateway.media.uploads import Uploads
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.folder import FolderObjects
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests.gateway.media.inboxes import Inboxes
from tests.gateway.media.outgoing import sent
from tests.gateway.parts import chat_message, opened

NAME = "report-0123456789abcdef.txt"
LIMIT = 10 * 2**20


class Machine:
    """A machine with its own workspace and the shared storage."""

    def __init__(self, workspace: Path, shared: Path) -> None:
        workspace.mkdir()
        shared.mkdir(exist_ok=True)
        self.workspace = workspace
        self.files = SharedFiles(FolderObjects(shared))
        self.inbox = SharedInbox(self.files, Inboxes(workspace), LIMIT)

    def receive(self, name: str, data: bytes) -> Media:
        path = self.workspace / "inbox" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return Media("document", f"inbox/{name}", size_bytes=len(data))


@pytest.fixture
def first(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "first", tmp_path / "shared")


@pytest.fixture
def second(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "second", tmp_path / "shared")


def message(*media: Media) -> InboundMessage:
    return chat_message("look", media=media)


def all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


async def test_received_file_is_fetched_once_by_another_machine(
    first: Machine, second: Machine
) -> None:
    media = await first.inbox.put(first.receive(NAME, b"content"))
    assert media.file_digest is not None
    assert await second.inbox.bring([message(media)]) == []
    copy = second.workspace / "inbox" / NAME
    assert copy.read_bytes() == b"content"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert is_marked(copy)
    copy.write_bytes(b"changed here")
    assert await second.inbox.bring([message(media)]) == []
    assert copy.read_bytes() == b"changed here"


async def test_unavailable_file_is_reported(first: Machine, second: Machine) -> None:
    media = await first.inbox.put(first.receive(NAME, b"content"))
    for lost in (
        replace(media, file_digest="0" * 64),
        replace(media, size_bytes=3),
    ):
        (failure,) = await second.inbox.bring([message(lost)])
        assert failure.startswith(f"inbox/{NAME} is not on this machine")
    assert all_files(second.workspace) == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"../{NAME}", f"/etc/{NAME}", f"inbox/../../{NAME}", f"memory/{NAME}", f"inbox//{NAME}"),
        *("inbox/../USER.md", "inbox/USER.md", f"inbox/.{NAME}", f"inbox/{NAME}.part"),
        # Another person's folder, and a missing folder.
        *(f"inbox/telegram/9/{NAME}", NAME, ""),
    ],
)
async def test_path_outside_the_inbox_of_the_message_is_ignored(
    first: Machine, second: Machine, path: str
) -> None:
    media = await first.inbox.put(first.receive(NAME, b"content"))
    forged = replace(media, path=path)
    assert await second.inbox.bring([message(forged)]) == []
    picture = ImageFile(path, "image/png", str(media.file_digest))
    await second.inbox.bring_pictures([Message("user", (picture,))])
    assert await second.inbox.put(forged) == forged
    assert all_files(second.workspace) == []


async def test_inbox_replaced_by_a_link_is_not_followed(
    first: Machine, second: Machine, tmp_path: Path
) -> None:
    media = await first.inbox.put(first.receive(NAME, b"content"))
    (tmp_path / "elsewhere").mkdir()
    (second.workspace / "inbox").symlink_to(tmp_path / "elsewhere")
    assert len(await second.inbox.bring([message(media)])) == 1
    assert all_files(tmp_path / "elsewhere") == []


async def test_pictures_of_a_conversation_are_fetched(first: Machine, second: Machine) -> None:
    media = await first.inbox.put(first.receive("photo-0123456789abcdef.png", b"picture"))
    picture = ImageFile(str(media.path), "image/png", str(media.file_digest))
    gone = ImageFile(str(media.path).replace("0", "1"), "image/png", "1" * 64)
    await second.inbox.bring_pictures([Message("user", (picture, gone))])
    (copy,) = all_files(second.workspace)
    assert copy.read_bytes() == b"picture"


async def test_files_are_received_while_the_store_is_unavailable(
    first: Machine, tmp_path: Path
) -> None:
    (tmp_path / "shared").rename(tmp_path / "unmounted")
    media = first.receive(NAME, b"content")
    assert await first.inbox.put(media) == media


async def test_upload_gets_its_digest_from_the_content(first: Machine) -> None:
    uploads = Uploads(lambda: first.workspace, LIMIT, shared=first.inbox)
    media = await sent(uploads, "a.txt", b"content")
    seen = await uploads.look_again(replace(media, file_digest="f" * 64))
    assert seen.file_digest is not None
    assert first.files.inbox("inbox").exists(seen.file_digest)
    elsewhere = Media("document", "/etc/passwd", file_digest=seen.file_digest)
    assert (await uploads.look_again(elsewhere)).file_digest is None


async def test_unused_files_are_deleted(tmp_path: Path, first: Machine) -> None:
    files, now, day_s = first.files, time.time(), 86_400.0

    def age(digest: str, area: str, seconds: float) -> None:
        for path in (tmp_path / "shared" / area).rglob(digest[2:]):
            os.utime(path, (now - seconds, now - seconds))

    outgoing = {name: files.outgoing.put(name.encode(), name * 32) for name in "abc"}
    for name in "ab":
        age(files.outgoing.name_of(outgoing[name], name * 32)[-64:], "outgoing", 2 * 3_600)
    undo = [files.undo.put(item) for item in (b"old", b"new")]
    age(undo[0], "undo", RETENTION_S + 60)
    age(undo[1], "undo", RETENTION_S - 60)
    received = [files.inbox("inbox").put(item) for item in (b"old", b"new")]
    age(received[0], "inbox", 31 * day_s)
    async with opened(tmp_path, [], files=files) as parts:
        waiting = OutboundFile("a", f"/elsewhere/{'a' * 32}", digest=outgoing["a"])
        reply = OutgoingReply("d", Route("chat", "bot", "1"), [OutboundPart("", files=(waiting,))])
        await parts.database.transact(outbox.put, None, [reply], now)
        # b was sent, or its row was never stored; the row of c may follow.
        assert await sweep(files, parts.database, None, now) == 2
        assert await sweep(files, parts.database, 30, now) == 1
    left = {name for name, result in outgoing.items() if files.outgoing.exists(result, name * 32)}
    assert left == {"a", "c"}
    assert [files.undo.exists(item) for item in undo] == [False, True]
    assert [files.inbox("inbox").exists(item) for item in received] == [False, True]
