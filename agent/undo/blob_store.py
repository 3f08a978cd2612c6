"""Contents of files, kept by their fingerprint: compressed, sealed if the store is, and capped."""

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

LIMIT_BYTES = 500_000_000
# Longer than steps are kept, so that none outlives what it needs.
KEEP_S = 8 * 86_400
_NAME_BYTES = 20
# How full the store is when it has made room.
_EASED = 0.6


@frozen
class BlobCipher:
    """Encrypts and decrypts bytes that belong to a name; `key` keeps names from telling the
    contents."""

    encrypt: Callable[[bytes, str], bytes]
    decrypt: Callable[[bytes, str], bytes]
    key: bytes


class SharedBlobs(Protocol):
    """Contents that other machines see, too. Each call raises `ToolError` when that could not be
    done."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes | None:
        """None when they are not there, or damaged."""
        ...

    def has(self, name: str) -> bool: ...


class BlobStore:
    """A folder of contents. What it gives back is what was put in, or nothing.

    It takes no more than `limit_bytes`, and drops what was not used for a week. With `shared` it
    finds also what other machines have put there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seal: BlobCipher | None = None,
        limit_bytes: int = LIMIT_BYTES,
        shared: SharedBlobs | None = None,
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._seal = seal
        self._shared = shared
        self._size_bytes: int | None = None
        self._expired_at: float | None = None

    def name(self, data: bytes) -> str:
        """The fingerprint of these bytes."""
        made = fingerprint(self._seal.key if self._seal else b"")
        made.update(data)
        return made.hexdigest()

    def put(self, data: bytes, needed: Collection[str] = ()) -> tuple[str, bool]:
        """The name of these bytes, and whether they are kept. Raises OSError.

        When the store is full, the oldest make room, but for those that are `needed`.
        """
        name = self.name(data)
        path = self._path(name)
        with suppress(FileNotFoundError):
            os.utime(path)
            return name, True
        packed = zlib.compress(data, 1)
        if self._seal:
            packed = self._seal.encrypt(packed, name)
        if self.size_bytes + len(packed) > self.limit_bytes:
            self.enforce_limit(needed, room=len(packed))
        if self.size_bytes + len(packed) > self.limit_bytes:
            return name, False
        write_whole(path, packed)
        self._size_bytes = self.size_bytes + len(packed)
        return name, True

    def get(self, name: str) -> bytes | None:
        """The bytes of this name; None when they are not kept, or not unharmed.

        Raises ToolError when they are not here, and other machines' cannot be looked at.
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
        """Let other machines have these contents, as far as they are here; False when they cannot
        be given them now."""
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
            packed = self._path(name).read_bytes()
            data = zlib.decompress(self._seal.decrypt(packed, name) if self._seal else packed)
        except (OSError, ValueError, zlib.error):
            return None
        return data if self.name(data) == name else None

    def has(self, name: str) -> bool:
        """Raises ToolError as `get` does."""
        if self._path(name).exists():
            return True
        return self._shared is not None and self._shared.has(name)

    @property
    def size_bytes(self) -> int:
        """What all of it takes on the disk; counted once, then kept in mind."""
        if self._size_bytes is None:
            self._size_bytes = sum(size for _, _, size in self._scan())
        return self._size_bytes

    def enforce_limit(
        self, needed: Collection[str], *, room: int = 0, now: float | None = None
    ) -> None:
        """Give up what is old, and where there is no `room` in bytes also the oldest of the rest.

        What is `needed` stays.
        """
        now = time.time() if now is None else now
        blobs = sorted(self._scan(), key=lambda one: one[1])
        total = sum(size for _, _, size in blobs)
        is_full = total + room > self.limit_bytes
        least = min(self.limit_bytes * _EASED, self.limit_bytes - room) if is_full else total
        for path, used_at, size in blobs:
            if path.parent.name + path.name in needed:
                continue
            if used_at < now - KEEP_S or total > least:
                path.unlink(missing_ok=True)
                total -= size
        self._size_bytes = total

    def expire_hourly(self) -> None:
        """Give up what is old, once an hour."""
        now = time.monotonic()
        if self._expired_at is None or now > self._expired_at + 3600:
            self._expired_at = now
            self.enforce_limit(())

    def names(self) -> set[str]:
        """All that is kept."""
        try:
            shards = os.listdir(self.folder / "blobs")
        except FileNotFoundError:
            return set()
        root = str(self.folder / "blobs")
        return {shard + name for shard in shards for name in os.listdir(f"{root}/{shard}")}

    def read_cache(self, name: str) -> bytes | None:
        """What was noted under this name; None when it is not there or not unharmed."""
        try:
            packed = (self.folder / "memos" / name).read_bytes()
            return zlib.decompress(self._seal.decrypt(packed, name) if self._seal else packed)
        except (OSError, ValueError, zlib.error):
            return None

    def write_cache(self, name: str, data: bytes) -> None:
        """Note something that can be worked out anew. Raises OSError."""
        packed = zlib.compress(data, 1)
        sealed = self._seal.encrypt(packed, name) if self._seal else packed
        write_whole(self.folder / "memos" / name, sealed)

    def clear(self) -> None:
        """Give up everything."""
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
    """What makes names of contents."""
    return blake2b(digest_size=_NAME_BYTES, key=key)


def make_private(folder: Path) -> None:
    """Make a folder and those that it is in, as far as they are missing, for the owner only."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Make `path` hold `data`, all or nothing, for its owner only. Raises OSError.

    A power cut may lose it: the reader checks its content.
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
