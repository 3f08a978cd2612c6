"""Contract of file stores, on a shared folder and in a bucket."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from gateway.store.cipher import Cipher
from gateway.store.files.file_store import FRESH_S, FileStore
from gateway.store.files.port import FileStoreError, StoredFileDamaged, StoredFileMissing
from tests.gateway.store.files.conftest import Place

PIECE = 2**20


def read(store: FileStore, digest: str, limit_bytes: int = 10**9, owner: str = "") -> bytes:
    target = BytesIO()
    size = store.fetch(digest, target, limit_bytes, owner)
    assert size == len(target.getvalue())
    return target.getvalue()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 9 * PIECE + 5])
def test_stored_content_is_read_by_its_digest(store: FileStore, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = tmp_path / "a"
    path.write_bytes(data)
    digest = store.put(path)
    assert digest == hashlib.sha256(data).hexdigest()
    assert read(store, digest) == data
    assert store.put(data) == digest


def test_same_content_is_stored_once_until_it_is_stale(store: FileStore, place: Place) -> None:
    digest = store.put(b"content")
    name, now = store.name_of(digest), time.time()
    assert [item.name for item in store.list()] == [name]
    place.set_modified(name, now - FRESH_S / 2)
    store.put(b"content")
    assert place.modified_at(name) < now - 60
    place.set_modified(name, now - 2 * FRESH_S)
    store.put(b"content")
    assert place.modified_at(name) > now - 60
    assert len(place.everything()) == 1


def test_file_belongs_to_its_owner_only(store: FileStore) -> None:
    digest = store.put(b"same", "one")
    assert store.put(b"same", "two") == digest
    assert not store.exists(digest)
    store.delete(digest, "one")
    assert not store.exists(digest, "one")
    assert read(store, digest, owner="two") == b"same"


def test_deleted_or_unknown_file_is_missing(store: FileStore) -> None:
    digest = store.put(b"content")
    store.delete(digest)
    store.delete(digest)
    for item in (digest, "0" * 64):
        assert not store.exists(item)
        with pytest.raises(StoredFileMissing) as caught:
            read(store, item)
        assert caught.value.hint
    assert list(store.list()) == []


def test_areas_are_separate(place: Place, cipher: Cipher | None) -> None:
    shared = place.open(cipher)
    digest = shared.outgoing.put(b"content")
    assert not shared.inbox("inbox").exists(digest)
    shared.inbox("inbox").put(b"content")
    shared.inbox("inbox/telegram/1").put(b"content")
    assert shared.inbox("inbox").delete_others() == 1
    assert len(list(shared.all_inboxes.list())) == 1
    assert shared.inbox("inbox/telegram/1").exists(digest)
    assert shared.outgoing.exists(digest)


def test_cleaning_keeps_needed_and_new_files(store: FileStore, place: Place) -> None:
    names = [store.name_of(store.put(bytes([n]))) for n in range(8)]
    for name in names[:6]:
        place.set_modified(name, 1_000.0)
    assert store.delete_others(names[:2], before=2_000.0) == 4
    assert sorted(item.name for item in store.list()) == sorted([*names[:2], *names[6:]])
    assert store.delete_others() == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data[: len(data) // 2],
        lambda data: data[:PIECE],
        lambda data: data + b"more",
        lambda data: b"",
        lambda data: os.urandom(len(data)),
    ],
)
def test_damaged_file_is_rejected(
    store: FileStore, place: Place, damage: Callable[[bytes], bytes]
) -> None:
    digest = store.put(b"content" * 400_000)
    place.replace(store.name_of(digest), damage)
    with pytest.raises(StoredFileDamaged) as caught:
        read(store, digest)
    assert caught.value.hint


def test_swapped_file_is_rejected(store: FileStore, place: Place) -> None:
    result, other = store.put(b"one one"), store.put(b"another")
    theirs = place.stored(store.name_of(other))
    place.replace(store.name_of(result), lambda _: theirs)
    with pytest.raises(StoredFileDamaged):
        read(store, result)


def test_truncated_file_is_repaired_by_storing_it_again(store: FileStore, place: Place) -> None:
    digest = store.put(b"content")
    place.replace(store.name_of(digest), lambda data: data[:-2])
    store.put(b"content")
    assert read(store, digest) == b"content"


def test_file_larger_than_expected_is_rejected(store: FileStore) -> None:
    digest = store.put(b"0123456789")
    assert read(store, digest, 10) == b"0123456789"
    with pytest.raises(StoredFileDamaged):
        read(store, digest, 9)


def test_sealed_files_reveal_nothing(place: Place) -> None:
    shared = place.open(Cipher(b"k" * 32, "KEY"))
    for store in (shared.outgoing, shared.inbox("inbox/telegram/77"), shared.undo):
        digest = store.put(b"the secret plan")
        name = store.name_of(digest)
        assert digest not in name
        assert b"secret" not in place.stored(name)
    assert not any("77" in item.split("/")[1] and "telegram" in item for item in place.everything())
    other = place.open(Cipher(b"K" * 32, "KEY")).outgoing
    with pytest.raises(StoredFileMissing):
        read(other, shared.outgoing.put(b"the secret plan"))


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63 + "/", "0" * 65])
def test_only_digests_are_valid_names(store: FileStore, place: Place, digest: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.exists(digest),
        lambda: store.delete(digest),
        lambda: store.fetch(digest, BytesIO(), 10),
        lambda: store.objects.write(f"outgoing/{digest}", [b""], 0),
        lambda: store.objects.find(f"outgoing/../outgoing/{'0' * 64}"),
        lambda: store.objects.delete(f"/outgoing/{'0' * 64}"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="not the name"):
            call()
    assert place.everything() == []


def test_file_that_changes_while_being_stored_is_rejected(
    store: FileStore, place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"first")

    pieces = iter([b"first", os.urandom(12 * PIECE)])

    class Changing(type(path)):
        """Path whose content changes on each read."""

        def open(self, *args: object, **kwargs: object) -> object:
            path.write_bytes(next(pieces))
            return super().open(*args, **kwargs)

    with pytest.raises(FileStoreError, match="changed while"):
        store.put(Changing(path))
    assert place.everything() == []


_WRITES = """
import sys, time
from gateway.store.files.opening import open_shared_files

def pieces():
    for _ in range(20):
        yield b"x" * 2**20
    print("half", flush=True)
    time.sleep(600)
    yield b"end"

shared = open_shared_files(sys.argv[1], None)
shared.objects.write("outgoing/" + "a" * 64, pieces(), 20 * 2**20 + 3)
"""


def test_killed_write_leaves_no_file(place: Place) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITES, place.address], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    shared = place.open()
    assert not shared.outgoing.exists("a" * 64)
    assert list(shared.outgoing.list()) == []
    data = b"x" * 20 * PIECE
    assert read(shared.outgoing, shared.outgoing.put(data)) == data
    shared.objects.discard_unfinished(time.time() - 60)
    unfinished = [item for item in place.everything() if ".unfinished" in item]
    assert len(unfinished) == (1 if place.folder is not None else 0)
    shared.objects.discard_unfinished(time.time() + 60)
    assert len(place.everything()) == 1
