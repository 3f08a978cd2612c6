"""Files by the digest of their content: what is read is what was put in, or an error."""

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from agent.records import frozen
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

# What is put in again counts as new, at the latest after this time.
FRESH_S = 12 * 3600.0


class Hasher(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


@frozen
class FileStore:
    """Files of one kind. Everything blocks: call it in threads.

    Names are SHA-256 of the contents, unless `hasher` is another; with a cipher they are keyed in
    the store, so that they do not tell the contents, and contents are sealed. `owner` is for a file
    that somebody has for themselves: it is stored for itself, whatever others hold.
    """

    objects: ObjectStore
    area: str
    cipher: Cipher | None = None
    hasher: Callable[[], Hasher] = hashlib.sha256

    @property
    def place(self) -> str:
        return self.objects.place

    def name_of(self, digest: str, owner: str = "") -> str:
        """Under what the store keeps it. Raises `ValueError` for what is no digest."""
        name = object_name(self.area, digest)
        if self.cipher is not None:
            key = self.cipher.derived("files")
            digest = hmac.digest(key, f"{name}:{owner}".encode(), "sha256").hex()
        elif owner:
            digest = hashlib.sha256(f"{digest}:{owner}".encode()).hexdigest()
        return object_name(self.area, digest)

    def put(self, source: bytes | Path, owner: str = "") -> str:
        """Store what the bytes or the file hold, unless it is there; returns its digest.

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
        """Write the file to `target`; returns its size. What was written counts only when this
        returns.

        Raises `FileStoreError`: `StoredFileMissing`, and `StoredFileDamaged` for what is not what
        was put in or is larger than the limit; `OSError` where `target` cannot be written.
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
        """Also when there is none."""
        self.objects.delete(self.name_of(digest, owner))

    def list(self) -> Iterator[StoredObject]:
        return self.objects.list(self.area)

    def delete_others(self, needed: Collection[str] = (), *, before: float | None = None) -> int:
        """Delete what is not needed (names of `name_of`) and, with `before`, was put in earlier
        than that (Unix time); returns how many files."""
        count = 0
        for one in list(self.list()):
            if one.name not in needed and (before is None or one.modified_at < before):
                self.objects.delete(one.name)
                count += 1
        return count

    def _measure(self, source: bytes | Path) -> tuple[str, int]:
        hasher, size = self.hasher(), 0
        for piece in _pieces(source):
            hasher.update(piece)
            size += len(piece)
        return hasher.hexdigest(), size

    def _unchanged(self, source: bytes | Path, digest: str) -> Iterator[bytes]:
        """The pieces of the source; raises before the end when they are others by now."""
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
    """The files that all machines of a Kore see, by kind."""

    objects: ObjectStore
    cipher: Cipher | None = None

    @property
    def place(self) -> str:
        return self.objects.place

    @property
    def undo(self) -> FileStore:
        """Contents for undo, by the fingerprints that `BlobStore` gives them."""
        from agent.undo.blob_store import fingerprint

        key = self.cipher.derived("undo") if self.cipher else b""
        return FileStore(self.objects, "undo", self.cipher, partial(fingerprint, key))

    @property
    def outgoing(self) -> FileStore:
        return FileStore(self.objects, "outgoing", self.cipher)

    def inbox(self, folder: str) -> FileStore:
        """What was received in an inbox folder, which is named as people see it: relative to the
        workspace."""
        key = self.cipher.derived("inbox folders") if self.cipher else b""
        area = hmac.digest(key, folder.encode(errors="surrogateescape"), "sha256").hex()[:40]
        return FileStore(self.objects, f"inbox/{area}", self.cipher)

    @property
    def trial(self) -> FileStore:
        """For a check that it works."""
        return FileStore(self.objects, "check", self.cipher)

    @property
    def all_inboxes(self) -> FileStore:
        """For cleaning only."""
        return FileStore(self.objects, "inbox", self.cipher)


def _pieces(source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
