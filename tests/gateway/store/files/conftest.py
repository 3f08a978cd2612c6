"""Both kinds of file stores, with and without a key."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.store.cipher import Cipher
from gateway.store.files.file_store import FileStore, SharedFiles
from gateway.store.files.opening import open_shared_files
from tests.fakes.s3 import S3Server, s3_server

PREFIX = "some/prefix/"


@dataclass
class Place:
    """A store and its actual content; `address` is the value of `store.files`."""

    address: str
    folder: Path | None = None
    server: S3Server | None = None

    def open(self, cipher: Cipher | None = None) -> SharedFiles:
        return open_shared_files(self.address, cipher)

    def stored(self, name: str) -> bytes:
        if self.server is not None:
            return self.server.objects[PREFIX + name][0]
        return self._path(name).read_bytes()

    def replace(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change a stored file without the store."""
        data = change(self.stored(name))
        if self.server is not None:
            self.server.objects[PREFIX + name] = data, self.server.objects[PREFIX + name][1]
        else:
            self._path(name).write_bytes(data)

    def modified_at(self, name: str) -> float:
        if self.server is not None:
            return self.server.objects[PREFIX + name][1]
        return self._path(name).stat().st_mtime

    def set_modified(self, name: str, at: float) -> None:
        if self.server is not None:
            self.server.objects[PREFIX + name] = self.stored(name), at
        else:
            os.utime(self._path(name), (at, at))

    def everything(self) -> list[str]:
        """Return all names, including unfinished writes."""
        if self.server is not None:
            return [key.removeprefix(PREFIX) for key in self.server.objects]
        assert self.folder is not None
        return [
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        ]

    def _path(self, name: str) -> Path:
        area, _, digest = name.rpartition("/")
        assert self.folder is not None
        return self.folder / area / digest[:2] / digest[2:]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    pytest.importorskip("obstore", reason="obstore is not installed")
    with s3_server() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        folder = tmp_path / "shared"
        folder.mkdir(mode=0o700)
        return Place(str(folder), folder=folder)
    server: S3Server = request.getfixturevalue("s3")
    return Place(server.address, server=server)


@pytest.fixture(params=["plain", "sealed"])
def cipher(request: pytest.FixtureRequest) -> Cipher | None:
    return None if request.param == "plain" else Cipher(b"k" * 32, "KEY")


@pytest.fixture
def store(place: Place, cipher: Cipher | None) -> FileStore:
    return place.open(cipher).outgoing
