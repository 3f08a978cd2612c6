import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import ArchiveRefused
from agent.security.archive import extract
from agent.security.archive.entry import ArchiveLimits


def write_zip(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def write_tar(path: Path, *entries: tarfile.TarInfo, data: bytes = b"x") -> Path:
    with tarfile.open(path, "w") as archive:
        for info in entries:
            if info.isreg():
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def expect_refusal(archive: Path, why: str, caps: ArchiveLimits | None = None) -> None:
    """Check that the archive is rejected and leaves nothing inside or next to the target."""
    before = sorted(os.listdir(archive.parent))
    with pytest.raises(ArchiveRefused, match=why):
        extract(archive, archive.parent / "out", caps)
    assert sorted(os.listdir(archive.parent)) == before
    assert not (archive.parent.parent / "evil").exists()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_tar_is_unpacked_with_every_compression(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    plain = tmp_path / "plain"
    long = "d/" + "n" * 150 + ".md"
    run = member("./d/run.sh")
    run.mode = 0o4755
    write_tar(
        plain,
        member("./", tarfile.DIRTYPE),
        member("d", tarfile.DIRTYPE),
        run,
        member(long),
        member("ü.txt"),
    )
    archive = tmp_path / "a"
    archive.write_bytes(pack(plain.read_bytes()))
    assert extract(archive, tmp_path / "new" / "out") == ("d/run.sh", long, "ü.txt")
    assert (tmp_path / "new/out" / long).read_bytes() == b"x"
    assert stat.S_IMODE((tmp_path / "new/out/d/run.sh").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new/out/ü.txt").stat().st_mode) == 0o600
    assert os.listdir(tmp_path / "new") == ["out"]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_every_form_of_tar_is_read(tmp_path: Path, form: int) -> None:
    with tarfile.open(tmp_path / "a", "w", format=form) as archive:
        for name in ("a/" + "b" * 90 + "/" + "c" * 60, "d"):
            archive.addfile(member(name), io.BytesIO())
    assert extract(tmp_path / "a", tmp_path / "out")[1] == "d"


def test_zip_is_unpacked(tmp_path: Path) -> None:
    inner = write_zip(tmp_path / "inner.zip", ("deep.txt", b"d"))
    archive = write_zip(
        tmp_path / "a.zip", ("d/", b""), ("d/a.txt", b"one" * 9999), ("ü/日本.md", b""),
        ("inner.zip", inner.read_bytes()),
    )  # fmt: skip
    assert extract(archive, tmp_path / "out") == ("d/a.txt", "ü/日本.md", "inner.zip")
    assert (tmp_path / "out/d/a.txt").read_bytes() == b"one" * 9999
    assert (tmp_path / "out/inner.zip").is_file()


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/evil", "//evil", "..", "a/..", "..\\evil", "a\\..\\evil",
     "C:/evil", "c:evil", "a:b", "a\nb", "a\u202eb", "a\u200b", "a.", "a ", "a/b /c", ".../x",
     "x" * 256, "ü" * 128, "/".join("a" * 33), "/".join(["x" * 200] * 6), "\x7f", "a\tb"],
)  # fmt: skip
def test_unsafe_names_are_rejected(tmp_path: Path, name: str) -> None:
    expect_refusal(write_zip(tmp_path / "a.zip", ("fine", b"x"), (name, b"x")), "unsafe name")
    expect_refusal(write_tar(tmp_path / "a.tar", member("fine"), member(name)), "unsafe name")


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "a"), ("a", "A"), ("d/a", "D/b"), ("a", "a/b"), ("a/b", "a"), ("K", "\u212a"),
     ("caf\u00e9/x", "CAFE\u0301/x"), ("ﬁ", "fi"), ("./a", "a"), ("a//b", "a/b")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names_are_rejected(tmp_path: Path, one: str, other: str) -> None:
    expect_refusal(write_zip(tmp_path / "a.zip", (one, b"x"), (other, b"x")), "two entries")
    expect_refusal(write_tar(tmp_path / "a.tar", member(one), member(other)), "two entries")


def test_write_through_a_planted_link_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    link = member("way", tarfile.SYMTYPE, "../..")
    expect_refusal(
        write_tar(tmp_path / "in" / "a.tar", link, member("way/evil")), "link or a special"
    )
    odd = zipfile.ZipInfo("way")
    odd.external_attr = (stat.S_IFLNK | 0o777) << 16
    expect_refusal(
        write_zip(tmp_path / "in" / "a.zip", (odd, b"../.."), ("way/evil", b"x")), "link"
    )


@pytest.mark.parametrize(
    "kind",
    [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE,
     tarfile.GNUTYPE_SPARSE, b"D", b"M", b"V", b"Z"],
)  # fmt: skip
def test_special_files_are_rejected(tmp_path: Path, kind: bytes) -> None:
    archive = write_tar(tmp_path / "a.tar", member("first"), member("dev", kind, "/etc/passwd"))
    expect_refusal(archive, "link or a special")


def test_bombs_are_rejected(tmp_path: Path) -> None:
    zeros = b"\0" * 4_000_000
    expect_refusal(write_zip(tmp_path / "a.zip", ("a", zeros)), "size limit")
    plain = write_tar(tmp_path / "plain", member("a"), data=zeros).read_bytes()
    plain_path = tmp_path / "plain"
    plain_path.unlink()
    (tmp_path / "a.gz").write_bytes(gzip.compress(plain))
    expect_refusal(tmp_path / "a.gz", "size limit")
    many_zeros = b"\0" * 100_000_000
    for packed in (bz2.compress(many_zeros, 1), lzma.compress(many_zeros, preset=0)):
        (tmp_path / "a.packed").write_bytes(packed)
        expect_refusal(tmp_path / "a.packed", r"damaged|empty|unpacking")
    small = ArchiveLimits(file_bytes=10)
    expect_refusal(write_zip(tmp_path / "a.zip", ("a", b"x" * 11)), "size limit", small)
    many = [(f"d/{i}", b"") for i in range(20)]
    expect_refusal(write_zip(tmp_path / "a.zip", *many), "more than 10", ArchiveLimits(entries=10))
    members = [member(f"d/{i}") for i in range(20)]
    expect_refusal(
        write_tar(tmp_path / "a.tar", *members), "more than 10", ArchiveLimits(entries=10)
    )


def test_harmless_file_with_high_compression_is_accepted(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("zeros", b"\0" * 900_000))
    assert extract(archive, tmp_path / "out") == ("zeros",)


def test_data_shared_by_many_names_is_rejected(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", ("a", b"x" * 1000), ("b", b"x" * 1000))
    data = path.read_bytes()
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    # Entry b claims the position and the name of entry a.
    path.write_bytes(data[: second + 42] + bytes(4) + data[second + 46 :])
    expect_refusal(path, "overlap")


def test_zip_with_extra_bytes_or_a_false_index_is_rejected(tmp_path: Path) -> None:
    good = write_zip(tmp_path / "a.zip", ("a", b"x" * 1000)).read_bytes()
    path = tmp_path / "a.zip"
    for bad, why in [
        (b"#!/bin/sh\n" + good, "cannot be unpacked|cut off|damaged"),
        (good + b"more", "not where"),
        (good[:-30], "cut off|not where"),
        (good[: len(good) // 2], "cut off"),
        (good[:10], "cut off"),
        (good.replace(b"x" * 9, b"y" * 9), "cannot be unpacked"),
        (b"", "cut off"),
        (b"PK\x05\x06", "cut off"),
    ]:
        if bad == good:
            continue
        path.write_bytes(bad)
        expect_refusal(path, why)


def test_damaged_and_truncated_tars_are_rejected(tmp_path: Path) -> None:
    good = write_tar(tmp_path / "a.tar", member("a"), member("b"), data=b"x" * 5000).read_bytes()
    path = tmp_path / "a.tar"
    for bad in (good[:512], good[:3000], good[:6000], good[:5632], gzip.compress(good)[:-4],
                b"z" + good[1:], b"\x1f\x8b" + good, lzma.compress(good)[:50]):  # fmt: skip
        path.write_bytes(bad)
        expect_refusal(path, "cut off|cannot be unpacked")


@pytest.mark.parametrize(
    "records",
    [b"14 path=../../e\n", b"9 size=9\n", b"22 GNU.sparse.major=1\n", b"99 path=x\n", b"x",
     b"0 path=x\n", b"11 path=a\0b\n", b"16 linkpath=/etc\n", b"-1 path=x\n"],
)  # fmt: skip
def test_odd_metadata_is_rejected(tmp_path: Path, records: bytes) -> None:
    note = tarfile.TarInfo("note")
    note.type, note.size = tarfile.XHDTYPE, len(records)
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        file.write(note.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0"))
        file.write(member("a").tobuf(tarfile.USTAR_FORMAT) + b"\0" * 1024)
    expect_refusal(path, "unusual|unsafe|damaged")


def test_target_must_be_new(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", ("a", b"x"))
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    for name in ("there", "link"):
        with pytest.raises(ArchiveRefused, match="exists already"):
            extract(archive, tmp_path / name)
    with pytest.raises(ArchiveRefused):
        extract(archive, tmp_path / "link" / "new")
    with pytest.raises(ArchiveRefused):
        extract(tmp_path / "none.zip", tmp_path / "new")


def test_quine_is_unpacked_once(tmp_path: Path) -> None:
    """The archive contains itself, but Kore never unpacks extracted archives."""
    inner = write_zip(tmp_path / "r.zip", ("r/r.zip", b"PK\x03\x04 itself"))
    assert extract(inner, tmp_path / "out") == ("r/r.zip",)
    assert (tmp_path / "out/r/r.zip").read_bytes() == b"PK\x03\x04 itself"


def test_deep_tree_of_folders_is_rejected(tmp_path: Path) -> None:
    name = "n" * 50 + f"/{'n' * 50}" * 999
    expect_refusal(write_zip(tmp_path / "a.zip", (name, b"x")), "too long or nested too deeply")
