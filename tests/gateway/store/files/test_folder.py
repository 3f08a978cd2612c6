"""Shared folder: files planted by others are neither followed nor waited for."""

import os
import stat
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from gateway.store.cipher import Cipher
from gateway.store.files.file_store import FileStore, SharedFiles
from gateway.store.files.folder import FolderObjects
from gateway.store.files.port import FileStoreUnavailable, StoredFileMissing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def store(root: Path) -> FileStore:
    return SharedFiles(FolderObjects(root)).outgoing


def path_of(root: Path, digest: str) -> Path:
    return root / "outgoing" / digest[:2] / digest[2:]


def test_files_are_private(store: FileStore, root: Path) -> None:
    before = os.umask(0)
    try:
        path = path_of(root, store.put(b"content"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(parent.stat().st_mode) for parent in list(path.parents)[:2]] == [
        0o700,
        0o700,
    ]


def test_link_in_place_of_a_file_is_not_followed(
    store: FileStore, root: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"content")
    digest = store.put(b"content")
    path = path_of(root, digest)
    path.unlink()
    path.symlink_to(secret)
    assert not store.exists(digest)
    with pytest.raises(StoredFileMissing):
        store.fetch(digest, BytesIO(), 100)
    assert list(store.list()) == []
    store.put(b"content")
    assert not path.is_symlink()
    assert secret.read_bytes() == b"content"


def test_link_in_place_of_a_folder_is_not_followed(
    store: FileStore, root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "outgoing").symlink_to(elsewhere)
    with pytest.raises(FileStoreUnavailable) as caught:
        store.put(b"content")
    assert caught.value.hint
    assert list(elsewhere.iterdir()) == []


@pytest.mark.timeout(20)
def test_special_file_is_missing(store: FileStore, root: Path) -> None:
    digest = store.put(b"content")
    path = path_of(root, digest)
    path.unlink()
    os.mkfifo(path)
    assert not store.exists(digest)
    with pytest.raises(StoredFileMissing):
        store.fetch(digest, BytesIO(), 100)
    path.unlink()
    path.mkdir()
    assert not store.exists(digest)
    open_count = len(os.listdir("/dev/fd"))
    with pytest.raises(StoredFileMissing):
        store.fetch(digest, BytesIO(), 100)
    assert len(os.listdir("/dev/fd")) == open_count


def test_missing_folder_is_not_created(tmp_path: Path) -> None:
    store = SharedFiles(FolderObjects(tmp_path / "not mounted")).outgoing
    for call in (
        lambda: store.put(b"content"),
        lambda: store.exists("0" * 64),
        lambda: list(store.list()),
    ):
        with pytest.raises(FileStoreUnavailable, match="not mounted") as caught:
            call()
        assert "mounted" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_owner_may_link_to_the_folder(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    store = SharedFiles(FolderObjects(tmp_path / "link")).outgoing
    assert path_of(root, store.put(b"content")).is_file()


class _Sink:
    """Writer that discards its data."""

    size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)


def test_large_file_takes_little_memory(root: Path, tmp_path: Path) -> None:
    store = SharedFiles(FolderObjects(root), Cipher(b"k" * 32, "KEY")).outgoing
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * 2**20)
    sink = _Sink()
    tracemalloc.start()
    try:
        store.fetch(store.put(large), cast(BinaryIO, sink), 64 * 2**20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sink.size == 64 * 2**20
    assert peak < 12 * 2**20
