"""Files of a git store that make up its history, and limits on their copies."""

import hashlib
import os
import re
import resource
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Self

from agent.records import frozen
from agent.security.files.safe_open import LISTED, open_folder_beneath

# https://git-scm.com/docs/gitformat-pack#_version_2_pack_idx_files_support_packs_larger_than_4_gib_and
_HEADER = b"\xfftOc\0\0\0\2"
_FANOUT_ENTRIES = 256
_NAMES = len(_HEADER) + _FANOUT_ENTRIES * 4
# Checksum and offset of each object, without its name.
_ENTRY_BYTES = 4 + 4
_LARGE_OFFSET_BYTES = 8
_PACK_SIGNATURE = b"PACK\0\0\0\2"
_PACK_HEADER_BYTES = len(_PACK_SIGNATURE) + 4
# Size of the smallest object in a pack: its type, and compressed empty content.
_MIN_OBJECT_BYTES = 9
_CHUNK_BYTES = 1 << 20
# Widths of names in the two repository formats, and their hashes.
_HASHES = {20: "sha1", 32: "sha256"}


@frozen
class OpenFile:
    """Large file: a descriptor that commands may share, and the size when it was opened."""

    descriptor: int
    size: int

    @classmethod
    def of(cls, descriptor: int) -> Self:
        return cls(descriptor, os.fstat(descriptor).st_size)

    def read(self, size: int, position: int = 0) -> bytes:
        """Return a part of the file as it was. Raises OSError."""
        return os.pread(self.descriptor, max(0, min(size, self.size - position)), position)


class PackIndex:
    """Pack index as bytes, or as an open file."""

    def __init__(self, content: bytes | OpenFile) -> None:
        self._content = content

    def _read(self, position: int, size: int) -> bytes:
        if isinstance(self._content, OpenFile):
            return self._content.read(size, position)
        return self._content[position : position + size]

    def _counts(self) -> list[int]:
        """Return the number of names up to each first byte; empty for other versions."""
        head = self._read(0, _NAMES)
        if len(head) < _NAMES or not head.startswith(_HEADER):
            return []
        return [int.from_bytes(head[at : at + 4], "big") for at in range(len(_HEADER), _NAMES, 4)]

    def lists(self, name: bytes) -> bool:
        """Return whether the object is listed."""
        counts = self._counts()
        if not counts:
            return False
        first, width = name[0], len(name)
        start, end = counts[first - 1] if first else 0, counts[first]
        names = self._read(_NAMES + start * width, (end - start) * width)
        return any(names[at : at + width] == name for at in range(0, len(names), width))

    def describes(self, pack: OpenFile) -> bool:
        """Return whether this index and the open pack are complete and belong together.

        The content of the pack is not decompressed.
        """
        counts = self._counts()
        if not counts or any(earlier > later for earlier, later in pairwise(counts)):
            return False
        size = self._content.size if isinstance(self._content, OpenFile) else len(self._content)
        return any(self._is_whole(pack, size, counts[-1], width) for width in _HASHES)

    def _is_whole(self, pack: OpenFile, size: int, count: int, width: int) -> bool:
        large = size - _NAMES - count * (width + _ENTRY_BYTES) - 2 * width
        if large < 0 or large % _LARGE_OFFSET_BYTES or large > count * _LARGE_OFFSET_BYTES:
            return False
        if pack.size < _PACK_HEADER_BYTES + count * _MIN_OBJECT_BYTES + width:
            return False
        if pack.read(_PACK_HEADER_BYTES) != _PACK_SIGNATURE + count.to_bytes(4, "big"):
            return False
        if pack.read(width, pack.size - width) != self._read(size - 2 * width, width):
            return False
        digest = hashlib.new(_HASHES[width], usedforsecurity=False)
        for position in range(0, size - width, _CHUNK_BYTES):
            digest.update(self._read(position, min(_CHUNK_BYTES, size - width - position)))
        return digest.digest() == self._read(size - width, width)


# A worktree has its own history inside of the store.
_HISTORY_FOLDER = re.compile(
    r"objects/(?:(?:[0-9a-f]{2}|pack|info)/)?|reftable/"
    r"|worktrees/(?:[^/]+/)?|(?:worktrees/[^/]+/)?(?:logs|refs)/(?:.*/)?"
)
_WORKTREE = re.compile(r"worktrees/[^/]+/")
_STORE_FILES = frozenset({"HEAD", "config", "packed-refs", "shallow"})
_WORKTREE_FILES = frozenset({"HEAD", "commondir", "gitdir"})
_NO_FILES: frozenset[str] = frozenset()
_MAX_LEVELS = 40
_COPIED_BYTES = 1 << 20
_MAX_CACHED_STORES = 4
# Share of the process's descriptors that is used here, and the number needed.
_SHARE, _WANTED_DESCRIPTORS = 4, 4_096
OBJECTS = "objects/"
STORE_FOLDERS = ("objects", "refs")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class HistoryLimits:
    """Limits for a command's copies of all repositories of a workspace, in files and bytes.

    The limit on descriptors applies to all commands together.
    """

    files: int = 50_000
    read_bytes: int = 128_000_000
    open_files: int = 1_000


@frozen
class StoreFolder:
    """Folder of a store at the time of listing.

    `is_settled`: any later change of its content changes its stamp.
    """

    stamp: tuple[int, int]
    is_settled: bool
    files: Mapping[str, bytes | OpenFile]
    folders: tuple[str, ...]

    @property
    def read_bytes(self) -> int:
        return sum(len(content) for content in self.files.values() if isinstance(content, bytes))


@dataclass(slots=True)
class HistoryCache:
    """Objects read earlier, by store and folder: they never change under their names.

    Large files are opened once for all commands that use them.
    """

    folders: dict[Path, dict[str, StoreFolder]] = field(default_factory=dict)
    _descriptors: dict[tuple[int, int], int] = field(default_factory=dict)
    _holders: Counter[tuple[int, int]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, store: Path, folders: Mapping[str, StoreFolder]) -> None:
        objects = {
            name: folder
            for name, folder in folders.items()
            if name.startswith(OBJECTS)
            and folder.is_settled
            and not any(isinstance(content, OpenFile) for content in folder.files.values())
        }
        with self._lock:
            self.folders.pop(store, None)
            while len(self.folders) >= _MAX_CACHED_STORES:
                self.folders.pop(next(iter(self.folders)))
            self.folders[store] = objects

    def hold(self, descriptor: int, stack: ExitStack, limit: int) -> OpenFile:
        """Return a file that remains open until the stack closes. Raises `LimitExceeded`."""
        info = os.fstat(descriptor)
        key = (info.st_dev, info.st_ino)
        with self._lock:
            if key not in self._descriptors:
                if len(self._descriptors) >= min(limit, _descriptor_share()):
                    raise LimitExceeded
                self._descriptors[key] = os.dup(descriptor)
            self._holders[key] += 1
            stack.callback(self._release, key)
            return OpenFile(self._descriptors[key], info.st_size)

    def _release(self, key: tuple[int, int]) -> None:
        with self._lock:
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                os.close(self._descriptors.pop(key))


class LimitExceeded(Exception):
    """Repository that exceeds the limits."""


class HoldingBudget:
    def __init__(self, limits: HistoryLimits) -> None:
        self.limits = limits
        self._files = self._read_bytes = 0

    def take(self, *, files: int = 0, read_bytes: int = 0) -> None:
        self._files += files
        self._read_bytes += read_bytes
        if self._files > self.limits.files or self._read_bytes > self.limits.read_bytes:
            raise LimitExceeded

    @contextmanager
    def store(self) -> Iterator[None]:
        """Return the budget of a store that cannot be preserved."""
        before = self._files, self._read_bytes
        try:
            yield
        except (OSError, LimitExceeded):
            self._files, self._read_bytes = before
            raise


def _descriptor_share() -> int:
    """Return the number of descriptors available here; raise the process's limit if it is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _WANTED_DESCRIPTORS:
        target = _WANTED_DESCRIPTORS
        if hard != resource.RLIM_INFINITY:
            target = min(target, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft // _SHARE


def put_back(place: Path, files: Mapping[str, bytes | OpenFile]) -> None:
    for name, content in files.items():
        path = place / name
        # git makes objects read-only.
        mode = 0o444 if name.startswith(OBJECTS) else 0o644
        with open_folder_beneath(path.parent, create=True) as folder:
            try:
                fd = os.open(path.name, _NEW, mode, dir_fd=folder)
            except FileExistsError:
                continue
        with open(fd, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
                continue
            # The file may have grown since.
            while data := content.read(_COPIED_BYTES, file.tell()):
                file.write(data)


def walk_history(
    folder: int, listed: Mapping[str, StoreFolder], path: str = "", *, is_strict: bool
) -> Iterator[tuple[str, int]]:
    """Yield each folder of a history: a prefix of the names in it, and a descriptor.

    The caller puts the folder into `listed` before it requests the next one. Links are not
    followed. If `is_strict`, raises OSError and `LimitExceeded` for an unreadable folder; otherwise
    such a folder is omitted.
    """
    yield path, folder
    for name in listed[path].folders:
        inner_path = f"{path}{name}/"
        if not _HISTORY_FOLDER.fullmatch(inner_path):
            continue
        if inner_path.count("/") > _MAX_LEVELS:
            if is_strict:
                raise LimitExceeded
            continue
        try:
            inner = os.open(name, LISTED, dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError:
            if is_strict:
                raise
            continue
        try:
            yield from walk_history(inner, listed, inner_path, is_strict=is_strict)
        finally:
            os.close(inner)


def history_names(folder: int, path: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the history files, and of the folders, in an open folder."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
    if not path:
        names = _STORE_FILES
    elif _WORKTREE.fullmatch(path):
        names = _WORKTREE_FILES
    elif path in (OBJECTS, "worktrees/"):
        names = _NO_FILES
    else:
        # Files that git has not finished writing are not part of the history.
        return [
            name for name in files if not name.endswith(".lock") and not name.startswith("tmp_")
        ], tuple(folders)
    return [name for name in files if name in names], tuple(folders)


def stamp_of(info: os.stat_result) -> tuple[int, int]:
    return info.st_ino, info.st_mtime_ns


def is_store(folder: int) -> bool:
    """Return whether git would recognize the open folder as a repository."""
    try:
        os.stat("HEAD", dir_fd=folder, follow_symlinks=False)
        return all(
            stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            for name in STORE_FOLDERS
        )
    except OSError:
        return False
