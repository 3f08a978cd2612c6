"""Content-addressed files: reading either returns exactly the stored bytes or fails."""

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from agent.records import frozen
from agent.undo.blob_store import fingerprint
from gateway.store.cipher import Cipher
from gateway.store.errors import catalogue_text
from gateway.store.files.port import (
    FileStoreError,
    ObjectStore,
    StoredObject,
    damaged_error,
    object_name,
)
from gateway.store.files.sealed_stream import PIECE_BYTES, seal_pieces, sealed_size, unseal_pieces

# Interval after which storing a file again makes it count as new.
FRESH_S = 12 * 3600.0


class Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


@frozen
class FileStore:
    """Files of one kind. All methods block: call them in threads.

    Names are the SHA-256 of the contents unless `hasher` is another function. With a cipher,
    contents are sealed and names in the store are keyed, so that they do not reveal the contents.
    `owner` gives a file to one owner: it is stored separately, even if others have the same file.
    """

    objects: ObjectStore
    area: str
    cipher: Cipher | None = None
    hasher: Callable[[], Hasher] = hashlib.sha256

    @property
    def place(self) -> str:
        return self.objects.place

    def name_of(self, digest: str, owner: str = "") -> str:
        """Return the name of the file in the store. Raises `ValueError` for an invalid digest."""
        name = object_name(self.area, digest)
        if self.cipher is not None:
            key = self.cipher.derived("files")
            digest = hmac.digest(key, f"{name}:{owner}".encode(), "sha256").hex()
        elif owner:
            digest = hashlib.sha256(f"{digest}:{owner}".encode()).hexdigest()
        return object_name(self.area, digest)

    def put(self, source: bytes | Path, owner: str = "") -> str:
        """Store the bytes or the file unless they already exist; return the digest.

        Raises `FileStoreError`, and `OSError` for a file that cannot be read.
        """
        digest, size = self._measure(source)
        name = self.name_of(digest, owner)
        stored_size = size if self.cipher is None else sealed_size(size)
        there = self.objects.find(name)
        is_fresh = there is not None and time.time() - there.modified_at < FRESH_S
        if there is None or not is_fresh or there.size_bytes != stored_size:
            pieces: Iterable[bytes] = self._unchanged(source, digest)
            if self.cipher is not None:
                pieces = seal_pieces(pieces, self.cipher)
            self.objects.write(name, pieces, stored_size)
        return digest

    def fetch(self, digest: str, target: BinaryIO, limit_bytes: int, owner: str = "") -> int:
        """Write the file to `target`; returns its size.

        The written bytes are verified only once this returns.

        Raises `FileStoreError`: `StoredFileMissing`, and `StoredFileDamaged` if the contents differ
        from the stored contents or exceed the limit; `OSError` if `target` cannot be written.
        """
        hasher, size = self.hasher(), 0
        with self.objects.read(self.name_of(digest, owner)) as stored:
            pieces = stored if self.cipher is None else unseal_pieces(stored, self.cipher)
            try:
                for piece in pieces:
                    size += len(piece)
                    if size > limit_bytes:
                        raise damaged_error(self.place)
                    hasher.update(piece)
                    target.write(piece)
            except ValueError as exc:
                raise damaged_error(self.place) from exc
        if not hmac.compare_digest(hasher.hexdigest(), digest):
            raise damaged_error(self.place)
        return size

    def exists(self, digest: str, owner: str = "") -> bool:
        return self.objects.find(self.name_of(digest, owner)) is not None

    def delete(self, digest: str, owner: str = "") -> None:
        """Delete the file, if it exists."""
        self.objects.delete(self.name_of(digest, owner))

    def list(self) -> Iterator[StoredObject]:
        return self.objects.list(self.area)

    def delete_others(self, needed: Collection[str] = (), *, before: float | None = None) -> int:
        """Delete the files that are not needed; return their number.

        `needed` contains names from `name_of`. With `before`, only files stored earlier than that
        (Unix time) are deleted.
        """
        count = 0
        for object_ in list(self.list()):
            if object_.name not in needed and (before is None or object_.modified_at < before):
                self.objects.delete(object_.name)
                count += 1
        return count

    def _measure(self, source: bytes | Path) -> tuple[str, int]:
        hasher, size = self.hasher(), 0
        for piece in _pieces(source):
            hasher.update(piece)
            size += len(piece)
        return hasher.hexdigest(), size

    def _unchanged(self, source: bytes | Path, digest: str) -> Iterator[bytes]:
        """Yield the pieces of the source; raises before the end if the source has changed."""
        hasher = self.hasher()
        last = b""
        for piece in _pieces(source):
            if last:
                yield last
            hasher.update(piece)
            last = piece
        if hasher.hexdigest() != digest:
            raise FileStoreError(
                catalogue_text("a file changed while it was stored in {place}"), place=self.place
            )
        yield last


@frozen
class SharedFiles:
    """Files that all machines of a Kore share, by kind."""

    objects: ObjectStore
    cipher: Cipher | None = None

    @property
    def place(self) -> str:
        return self.objects.place

    @property
    def undo(self) -> FileStore:
        """Contents for undo, by the fingerprints of `BlobStore`."""
        key = self.cipher.derived("undo") if self.cipher else b""
        return FileStore(self.objects, "undo", self.cipher, partial(fingerprint, key))

    @property
    def outgoing(self) -> FileStore:
        return FileStore(self.objects, "outgoing", self.cipher)

    def inbox(self, folder: str) -> FileStore:
        """Return the received files of an inbox folder, named relative to the workspace."""
        key = self.cipher.derived("inbox folders") if self.cipher else b""
        area = hmac.digest(key, folder.encode(errors="surrogateescape"), "sha256").hex()[:40]
        return FileStore(self.objects, f"inbox/{area}", self.cipher)

    @property
    def trial(self) -> FileStore:
        """Files for checking that the store works."""
        return FileStore(self.objects, "check", self.cipher)

    @property
    def all_inboxes(self) -> FileStore:
        """Files of all inbox folders, for cleaning only."""
        return FileStore(self.objects, "inbox", self.cipher)


def _pieces(source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
