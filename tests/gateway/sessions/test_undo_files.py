"""Undo contents in the file store, whose outages delay no change."""

from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.undo.blob_store import BlobCipher, BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.file_ledger import FileLedger
from agent.undo.records import ChangeOrigin
from gateway.sessions.undo_ledger import UndoFiles
from gateway.store.cipher import Cipher
from gateway.store.files.file_store import SharedFiles
from gateway.store.files.folder import FolderObjects


def log_of(folder: Path, shared: Path, cipher: Cipher | None = None) -> ChangeLog:
    seal = None
    if cipher is not None:
        key = cipher.derived("undo")
        seal = BlobCipher(cipher.seal_bytes, cipher.unseal_bytes, key)
    files = UndoFiles(SharedFiles(FolderObjects(shared), cipher).undo)
    return ChangeLog(FileLedger(folder), BlobStore(folder, seal=seal, shared=files))


@pytest.fixture(params=[None, Cipher(b"k" * 32, "KEY")], ids=["plain", "sealed"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> list[ChangeLog]:
    """Return the change logs of two machines."""
    (tmp_path / "shared").mkdir()
    return [log_of(tmp_path / name, tmp_path / "shared", request.param) for name in "ab"]


def change(log: ChangeLog, path: Path, data: bytes) -> list[str]:
    origin = ChangeOrigin("s", 1, "c", "write_file", path.parent)
    notes = log.files(origin, {path: data})
    path.write_bytes(data)
    return notes


def test_only_earlier_contents_of_changes_are_shared(logs: list[ChangeLog], tmp_path: Path) -> None:
    first, second = logs
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")
    first.blobs.put(b"some other file of a folder")
    assert change(first, path, b"after") == []
    (step,) = first.ledger.steps("s")
    before = step.changes[0].before
    assert before is not None
    assert second.blobs.has(before.value)
    assert second.blobs.get(before.value) == b"before"
    assert before.value in second.blobs.names()
    assert len([item for item in (tmp_path / "shared").rglob("*") if item.is_file()]) == 1


def test_unavailable_store_is_reported_and_the_change_is_made(
    logs: list[ChangeLog], tmp_path: Path
) -> None:
    first, second = logs
    (tmp_path / "shared").rename(tmp_path / "unmounted")
    path = tmp_path / "a.txt"
    path.write_bytes(b"before")
    (note,) = change(first, path, b"after")
    assert "only this machine" in note
    (step,) = first.ledger.steps("s")
    before = step.changes[0].before
    assert before is not None
    assert first.blobs.get(before.value) == b"before"
    with pytest.raises(ToolError, match="shared"):
        second.blobs.has(before.value)


def test_failed_store_is_not_retried_for_a_while(tmp_path: Path) -> None:
    shared, clock = tmp_path / "shared", [0.0]
    files = UndoFiles(SharedFiles(FolderObjects(shared)).undo, lambda: clock[0])
    name = BlobStore(tmp_path / "blobs").name(b"content")
    with pytest.raises(ToolError, match="cannot be stored"):
        files.put(name, b"content")
    shared.mkdir()
    with pytest.raises(ToolError, match="a moment ago"):
        files.put(name, b"content")
    clock[0] = 31.0
    files.put(name, b"content")
    assert files.get(name) == b"content"
