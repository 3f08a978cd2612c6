"""Chunked uploads of clients."""

import os
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.security.taint.file_marks import is_marked
from gateway.media.uploads import PART_BYTES, UnknownUpload, Uploads, is_inbox_path
from tests.gateway.media.outgoing import encoded, sent


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(lambda: tmp_path, 5 * 2**20)


async def test_file_uploaded_in_parts_is_stored_once(uploads: Uploads, tmp_path: Path) -> None:
    data = os.urandom(PART_BYTES * 2 + 17)
    first, again = [await sent(uploads, "data.bin", data) for _ in range(2)]
    assert first == again
    file = tmp_path / str(first.path)
    assert file.read_bytes() == data
    assert file.stat().st_mode & 0o777 == 0o600
    assert is_marked(file)
    assert [path.name for path in (tmp_path / "inbox").iterdir()] == [file.name]


async def test_changed_file_is_not_overwritten(uploads: Uploads, tmp_path: Path) -> None:
    first = await sent(uploads, "a.txt", b"theirs")
    (tmp_path / str(first.path)).write_text("mine!!")
    again = await sent(uploads, "a.txt", b"theirs")
    assert (tmp_path / str(first.path)).read_text() == "mine!!"
    assert (tmp_path / str(again.path)).read_text() == "theirs"


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "..", ".", "", "/", "C:\\boot.ini", "a\x00b", "\ud800.txt", "-rf"),
        *("x" * 5_000 + ".txt", "\u5b57" * 300, "\u202egnp.exe", "a\nb.txt", ".bashrc", "CON"),
    ],
)
async def test_name_cannot_leave_the_inbox(uploads: Uploads, tmp_path: Path, name: str) -> None:
    media = await sent(uploads, name, b"x")
    assert media.path is not None
    assert is_inbox_path(media.path)
    assert (tmp_path / media.path).read_bytes() == b"x"
    assert media.name is not None
    assert media.name.isprintable()
    assert len(list(tmp_path.rglob("*"))) == 2
    assert await uploads.look_again(media) == media


@pytest.mark.parametrize(
    ("offset", "data"),
    [
        (1, "eA=="),
        (-1, "eA=="),
        (2**62, "eA=="),
        (0, ""),
        (0, "not base64"),
        (0, encoded(b"x" * 9)),
    ],
)
async def test_inconsistent_parts_are_rejected(uploads: Uploads, offset: int, data: str) -> None:
    upload = await uploads.begin("a", 5)
    with pytest.raises(KoreError):
        await uploads.add(upload, offset, data)
    assert await uploads.add(upload, 0, encoded(b"12345")) is not None


async def test_link_in_place_of_the_inbox_is_rejected(uploads: Uploads, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "inbox").symlink_to("elsewhere")
    upload = await uploads.begin("a", 1)
    with pytest.raises(KoreError, match="could not be saved"):
        await uploads.add(upload, 0, "eA==")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_idle_uploads_are_dropped(tmp_path: Path) -> None:
    now = 0.0
    uploads = Uploads(lambda: tmp_path, 100, lambda: now)
    first = await uploads.begin("a", 2)
    assert await uploads.add(first, 0, "eA==") is None
    for _ in range(15):
        await uploads.begin("b", 1)
    with pytest.raises(KoreError, match="in progress"):
        await uploads.begin("c", 1)
    now = 1_000.0
    await uploads.begin("c", 1)
    with pytest.raises(UnknownUpload):
        await uploads.add(first, 1, "eA==")
    assert list((tmp_path / "inbox").iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "inbox/../x-0123456789abcdef", "inbox/sub/x-0123456789abcdef", "USER.md"),
        *(
            "inbox/notes.txt",
            "inbox/",
            "inbox/.upload-0123456789abcdef.part",
            "inbox/.x-0123456789abcdef",
        ),
        *("/inbox/x-0123456789abcdef", "inbox//x-0123456789abcdef", "inbox/x\n-0123456789abcdef"),
    ],
)
def test_other_paths_are_not_uploads(path: str) -> None:
    assert not is_inbox_path(path)
