import os
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pytest

from gateway.core.messages import Media
from gateway.media.storage import (
    delete_older_than,
    places,
    storage_name,
    store_upload,
    with_file_facts,
)
from tests.deep_folders import deep_folders


def name_in_storage(name: str | None, **more: str) -> str:
    return storage_name(Media("document", name=name, unique="u1", **more), "bot")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        *("../../.ssh/authorized_keys", "a/b", "..", ".", "", None, "x" * 500, "\0", "🐱.png"),
        *(".env", "𐍈" * 100 + ".txt"),
    ],
)
def test_name_is_one_plain_component(name: str | None) -> None:
    stored_name = name_in_storage(name)
    assert "/" not in stored_name
    assert not stored_name.startswith(".")
    assert len(f".{stored_name}.part".encode()) <= 255
    assert stored_name.isprintable()


def test_storage_name_depends_on_the_file() -> None:
    assert name_in_storage("a.txt") == name_in_storage("a.txt")
    assert name_in_storage("a.txt") != storage_name(
        Media("document", name="a.txt", unique="u2"), "bot"
    )
    assert name_in_storage("a.txt").startswith("a-")
    assert name_in_storage("a.txt").endswith(".txt")


def test_names_do_not_collide_by_chance() -> None:
    mark = name_in_storage("a.txt").removeprefix("a-").removesuffix(".txt")
    assert len(mark) * 4 >= 64


async def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "inbox" / "a.txt"
    path.parent.mkdir()
    path.write_bytes(b"mine")

    async def other(file: BinaryIO) -> None:
        file.write(b"theirs")

    with pytest.raises(FileExistsError):
        await store_upload(path, tmp_path, other)
    assert path.read_bytes() == b"mine"
    assert list(path.parent.iterdir()) == [path]


def test_unnamed_file_is_named_after_its_kind() -> None:
    stored_name = storage_name(Media("voice", media_type="audio/ogg", unique="u"), "bot")
    assert stored_name.startswith("voice-")
    assert stored_name.endswith(".ogg")


async def test_file_is_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "inbox" / "a.txt"

    async def broken(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("the line broke")

    with pytest.raises(OSError, match="line broke"):
        await store_upload(path, tmp_path, broken)
    assert list(path.parent.iterdir()) == []

    async def whole(file: BinaryIO) -> None:
        file.write(b"all of it")

    await store_upload(path, tmp_path, whole)
    assert path.read_bytes() == b"all of it"


async def test_files_are_not_written_through_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "inbox").symlink_to(outside)

    async def whole(file: BinaryIO) -> None:
        file.write(b"x")

    with pytest.raises(OSError, match=r"inbox|link|directory"):
        await store_upload(tmp_path / "inbox" / "a.txt", tmp_path, whole)
    assert list(outside.iterdir()) == []


def test_only_expired_inbox_files_are_deleted(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    outside = tmp_path / "outside"
    theirs = inbox / "telegram" / "7"
    theirs.mkdir(parents=True)
    outside.mkdir()
    received = storage_name(Media("document", name="a.txt", unique="u"), "bot")
    old = [theirs / received, inbox / received, theirs / f".{received}.part"]
    old.append(next(islice(places(theirs / received), 1, None)))
    own = [theirs / "notes.md", outside / received]
    new = theirs / storage_name(Media("document", name="b.txt", unique="v"), "bot")
    for path in (*old, *own, new):
        path.write_text("x")
        os.utime(path, (1000, 1000 if path != new else 2000))
    (inbox / "linked").symlink_to(outside)
    assert delete_older_than(inbox, 1500) == len(old)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in (*own, new))
    assert delete_older_than(tmp_path / "none", 1500) == 0


def test_picture_is_recognized_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\xd8\xff" + bytes(20))
    facts = with_file_facts(Media("document", media_type="text/plain"), path, tmp_path)
    assert (facts.path, facts.media_type, facts.size_bytes) == ("a.txt", "image/jpeg", 23)
    assert facts.digest
    path.write_bytes(b"GIF but not really" + os.urandom(10))
    assert with_file_facts(Media("document"), path, tmp_path).digest is None


def test_expired_files_in_deep_folders_are_deleted(tmp_path: Path) -> None:
    received = storage_name(Media("document", name="a.txt", unique="u"), "bot")
    with deep_folders(tmp_path / "inbox") as levels:
        innermost = os.open(tmp_path / "inbox", os.O_RDONLY)
        for level in levels:
            below = os.open(level, os.O_RDONLY, dir_fd=innermost)
            os.close(innermost)
            innermost = below
        os.rename("deep.txt", received, src_dir_fd=innermost, dst_dir_fd=innermost)
        os.close(innermost)
        last = tmp_path / "inbox" / "z" / received
        last.parent.mkdir()
        last.write_text("x")
        assert delete_older_than(tmp_path / "inbox", last.stat().st_mtime + 1) == 2
        assert not last.exists()
        assert (tmp_path / "inbox" / "first.txt").exists()
