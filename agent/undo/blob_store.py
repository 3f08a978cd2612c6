"""Content-addressed store for earlier file contents: compressed, optionally encrypted, with a size
limit."""

import logging
import os
import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from agent.errors import ToolError
from agent.records import frozen

log = logging.getLogger(__name__)

MAX_BYTES = 500_000_000
# Longer than the retention of steps, so that every step has its contents.
RETENTION_S = 8 * 86_400
_NAME_BYTES = 20
# Fill level after making room.
_TARGET_FILL = 0.6


@frozen
class BlobCipher:
    """Encryption of blobs under their names.

    `key` is part of the fingerprints, so that a name reveals nothing about the content.
    """

    encrypt: Callable[[bytes, str], bytes]
    decrypt: Callable[[bytes, str], bytes]
    key: bytes


class SharedBlobs(Protocol):
    """Contents shared with other machines. Each method raises `ToolError` when it fails."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """Return the content, or None when it is missing or damaged."""
        ...

    def has(self, name: str) -> bool: ...


class BlobStore:
    """Folder of contents, which are returned unchanged or not at all.

    It uses at most `limit_bytes`, and drops contents unused for a week. With `shared`, it also
    finds contents stored by other machines.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seal: BlobCipher | None = None,
        limit_bytes: int = MAX_BYTES,
        shared: SharedBlobs | None = None,
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._seal = seal
        self._shared = shared
        self._size_bytes: int | None = None
        self._expired_at: float | None = None

    def name(self, data: bytes) -> str:
        """Return the fingerprint of these bytes."""
        digest = fingerprint(self._seal.key if self._seal else b"")
        digest.update(data)
        return digest.hexdigest()

    def put(self, data: bytes, needed: Collection[str] = ()) -> tuple[str, bool]:
        """Store bytes; return their name and whether they are stored. Raises `OSError`.

        When the store is full, the oldest contents are dropped, except those in `needed`.
        """
        name = self.name(data)
        path = self._path(name)
        with suppress(FileNotFoundError):
            os.utime(path)
            return name, True
        compressed = zlib.compress(data, 1)
        if self._seal:
            compressed = self._seal.encrypt(compressed, name)
        if self.size_bytes + len(compressed) > self.limit_bytes:
            self.enforce_limit(needed, room=len(compressed))
        if self.size_bytes + len(compressed) > self.limit_bytes:
            return name, False
        write_whole(path, compressed)
        self._size_bytes = self.size_bytes + len(compressed)
        return name, True

    def get(self, name: str) -> bytes | None:
        """Return the content of this name, or None when it is missing or damaged.

        Raises `ToolError` when it is not on this machine and the shared store cannot be read.
        """
        data = self._local(name)
        if data is not None or self._shared is None:
            return data
        data = self._shared.get(name)
        if data is None or self.name(data) != name:
            return None
        with suppress(OSError):
            self.put(data)
        return data

    def share(self, names: Iterable[str]) -> bool:
        """Copy local contents to the shared store. Return False when it is unavailable."""
        if self._shared is None:
            return True
        try:
            for name in dict.fromkeys(names):
                if (data := self._local(name)) is not None:
                    self._shared.put(name, data)
        except ToolError as exc:
            log.warning("earlier contents stay on this machine: %s", exc)
            return False
        return True

    def _local(self, name: str) -> bytes | None:
        try:
            stored = self._path(name).read_bytes()
            data = zlib.decompress(self._seal.decrypt(stored, name) if self._seal else stored)
        except (OSError, ValueError, zlib.error):
            return None
        return data if self.name(data) == name else None

    def has(self, name: str) -> bool:
        """Return whether a content is stored. Raises `ToolError` like `get`."""
        if self._path(name).exists():
            return True
        return self._shared is not None and self._shared.has(name)

    @property
    def size_bytes(self) -> int:
        """Size on disk, counted once and then tracked."""
        if self._size_bytes is None:
            self._size_bytes = sum(size for _, _, size in self._scan())
        return self._size_bytes

    def enforce_limit(
        self, needed: Collection[str], *, room: int = 0, now: float | None = None
    ) -> None:
        """Drop expired contents, and the oldest others until `room` bytes are free.

        Contents in `needed` stay.
        """
        now = time.time() if now is None else now
        blobs = sorted(self._scan(), key=lambda blob: blob[1])
        total = sum(size for _, _, size in blobs)
        is_full = total + room > self.limit_bytes
        target_bytes = (
            min(self.limit_bytes * _TARGET_FILL, self.limit_bytes - room) if is_full else total
        )
        for path, used_at, size in blobs:
            if path.parent.name + path.name in needed:
                continue
            if used_at < now - RETENTION_S or total > target_bytes:
                path.unlink(missing_ok=True)
                total -= size
        self._size_bytes = total

    def expire_hourly(self) -> None:
        """Drop expired contents, at most once an hour."""
        now = time.monotonic()
        if self._expired_at is None or now > self._expired_at + 3600:
            self._expired_at = now
            self.enforce_limit(())

    def names(self) -> set[str]:
        """Return the names of all local contents."""
        try:
            shards = os.listdir(self.folder / "blobs")
        except FileNotFoundError:
            return set()
        root = str(self.folder / "blobs")
        return {shard + name for shard in shards for name in os.listdir(f"{root}/{shard}")}

    def read_cache(self, name: str) -> bytes | None:
        """Return a cached value, or None when it is missing or damaged."""
        try:
            compressed = (self.folder / "memos" / name).read_bytes()
            return zlib.decompress(
                self._seal.decrypt(compressed, name) if self._seal else compressed
            )
        except (OSError, ValueError, zlib.error):
            return None

    def write_cache(self, name: str, data: bytes) -> None:
        """Cache a value that can be computed again. Raises `OSError`."""
        compressed = zlib.compress(data, 1)
        sealed = self._seal.encrypt(compressed, name) if self._seal else compressed
        write_whole(self.folder / "memos" / name, sealed)

    def clear(self) -> None:
        """Remove all contents and cached values."""
        for path, _, _ in self._scan():
            path.unlink(missing_ok=True)
        for memo in self.folder.glob("memos/*"):
            memo.unlink(missing_ok=True)
        self._size_bytes = 0

    def _scan(self) -> Iterator[tuple[Path, float, int]]:
        with suppress(FileNotFoundError):
            for shard in os.scandir(self.folder / "blobs"):
                for entry in os.scandir(shard):
                    with suppress(FileNotFoundError):
                        info = entry.stat()
                        yield Path(entry), info.st_mtime, info.st_size

    def _path(self, name: str) -> Path:
        return self.folder / "blobs" / name[:2] / name[2:]


def fingerprint(key: bytes) -> blake2b:
    """Return the hash object for names of contents."""
    return blake2b(digest_size=_NAME_BYTES, key=key)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for the owner only."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, for its owner only. Raises `OSError`.

    A power cut may lose the content, so readers verify it.
    """
    new = path.with_name(f".{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(new, flags, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        fd = os.open(new, flags, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
