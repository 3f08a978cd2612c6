"""Protection of repositories against deletion while a command runs.

No sandbox can tell `rm` from `git gc`, which deletes objects too. So what makes up the history is
held until the command has ended: small files as bytes, large ones as open descriptors, which
outlive their names. What is missing then and was not removed by git is put back.
"""

import errno
import hashlib
import logging
import os
import re
import stat
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from agent.records import frozen
from agent.security.files.safe_open import LISTED, open_folder_beneath, open_subfolder
from agent.tools.repositories.pack_index import OpenFile, PackIndex

log = logging.getLogger(__name__)

_READ_BYTES = 64_000
# A command may have made a file of refs as large as it likes.
_MOST_TEXT_BYTES = 64_000_000
_COPIED_BYTES = 1 << 20
_MOST_LEVELS = 40
_CACHED_STORES = 4
# A folder that changed this shortly before it was listed may change again unnoticed.
_SETTLED_NS = 1_000_000_000
# Stores of other repositories, and contents that can be fetched again.
_LEFT_OUT = frozenset({"lfs/", "modules/"})
_FOLDERS = ("objects", "refs")
_OBJECTS = "objects/"
_PACKED = "packed-refs"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_INDEX = re.compile(r"objects/pack/.*\.idx")
_PACK = re.compile(r"objects/pack/.*\.pack")
_LOG = re.compile(r"(?:worktrees/[^/]+/)?logs/")
_SHA1_DIGITS = 40
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PACKED_REF = re.compile(rf"^({_HASH.pattern}) (refs/\S+)$", re.MULTILINE)
_MOST_OBJECT_BYTES = 64_000_000


@frozen
class HistoryLimits:
    """Bounds of what a command holds of all repositories of a workspace, in files and bytes, and of
    the descriptors that all commands share."""

    files: int = 20_000
    read_bytes: int = 64_000_000
    open_files: int = 200


@frozen
class _StoreFolder:
    """A folder of a store as it was listed. `is_settled` says that a later change of what it
    contains shows in its stamp."""

    stamp: tuple[int, int]
    is_settled: bool
    files: Mapping[str, bytes | OpenFile]
    folders: tuple[str, ...]

    @property
    def read_bytes(self) -> int:
        return sum(len(content) for content in self.files.values() if isinstance(content, bytes))


@dataclass(slots=True)
class HistoryCache:
    """Objects that were read already, by store and folder: they never change under their names.

    Large files are open once for all commands that hold them.
    """

    folders: dict[Path, dict[str, _StoreFolder]] = field(default_factory=dict)
    _descriptors: dict[tuple[int, int], int] = field(default_factory=dict)
    _holders: Counter[tuple[int, int]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, store: Path, folders: Mapping[str, _StoreFolder]) -> None:
        objects = {
            name: folder
            for name, folder in folders.items()
            if name.startswith(_OBJECTS)
            and folder.is_settled
            and not any(isinstance(content, OpenFile) for content in folder.files.values())
        }
        with self._lock:
            self.folders.pop(store, None)
            while len(self.folders) >= _CACHED_STORES:
                self.folders.pop(next(iter(self.folders)))
            self.folders[store] = objects

    def hold(self, descriptor: int, stack: ExitStack, limit: int) -> OpenFile:
        """Return a file that stays open until the stack closes. Raises `_LimitExceeded`."""
        info = os.fstat(descriptor)
        key = (info.st_dev, info.st_ino)
        with self._lock:
            if key not in self._descriptors:
                if len(self._descriptors) >= limit:
                    raise _LimitExceeded
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


class GitHistoryGuard:
    """Call `begin` before a command and `end` after it, both in a thread. `end` waits for a `begin`
    whose caller has been cancelled.

    Repositories beyond the limits are not protected.
    """

    def __init__(
        self,
        workspace: Path,
        cache: HistoryCache | None = None,
        limits: HistoryLimits | None = None,
    ) -> None:
        self._root = workspace
        self._cache = cache or HistoryCache()
        self._limits = limits or HistoryLimits()
        self._copies: list[_HistoryCopy] = []
        self._lock = Lock()
        self._has_ended = False

    def begin(self, stores: Iterable[Path]) -> None:
        with self._lock:
            if self._has_ended:
                return
            budget = _Budget(self._limits)
            for store in stores:
                with suppress(OSError), ExitStack() as stack:
                    copy = _HistoryCopy(store, self._cache, budget, stack)
                    with suppress(_LimitExceeded):
                        try:
                            copy.read()
                        finally:
                            # Also of a store with too much, so that it is not read each time.
                            self._cache.keep(store, copy.folders)
                        self._copies.append(copy)
                        copy.stack = stack.pop_all()

    def end(self, *, is_restored: bool = True) -> Sequence[str]:
        """Put back what git did not remove, if it is to be, and return where, seen from the
        workspace."""
        with self._lock:
            self._has_ended = True
            restored = []
            for copy in self._copies:
                with copy.stack:
                    try:
                        place = copy.restore() if is_restored else None
                    except (OSError, _LimitExceeded) as exc:
                        log.error("the repository %s could not be put back: %s", copy.store, exc)
                        continue
                    if place is not None:
                        restored.append(str(place.relative_to(self._root)))
            self._copies.clear()
            return restored


class _LimitExceeded(Exception):
    """A repository has more than is held."""


class _Budget:
    def __init__(self, limits: HistoryLimits) -> None:
        self.limits = limits
        self._files = self._read_bytes = 0

    def take(self, *, files: int = 0, read_bytes: int = 0) -> None:
        self._files += files
        self._read_bytes += read_bytes
        if self._files > self.limits.files or self._read_bytes > self.limits.read_bytes:
            raise _LimitExceeded


class _HistoryCopy:
    """The files of one store as they were, by their path in it: bytes, or an open file. `stack`
    closes those."""

    def __init__(self, store: Path, cache: HistoryCache, budget: _Budget, stack: ExitStack) -> None:
        self.store = store
        self.folders: dict[str, _StoreFolder] = {}
        self.stack = stack
        self._cache = cache
        self._budget = budget
        self._files: dict[str, bytes | OpenFile] = {}
        with open_folder_beneath(store.parent) as parent:
            self._folder = open_subfolder(store.name, parent, flags=LISTED)
        stack.callback(os.close, self._folder)
        self._packed_stamp = self._stamp_of_packed()

    def read(self) -> None:
        """Read what can be read, and open the rest. Raises OSError and `_LimitExceeded`."""
        cached = self._cache.folders.get(self.store, {})
        for name, fd in _walk(self._folder, self.folders):
            earlier = cached.get(name)
            if earlier is not None and earlier.stamp == _stamp(os.fstat(fd)):
                self._budget.take(files=len(earlier.files), read_bytes=earlier.read_bytes)
                self.folders[name] = earlier
            else:
                self.folders[name] = self._list(fd)
        self._files = {
            f"{name}{file}": content
            for name, folder in self.folders.items()
            for file, content in folder.files.items()
        }

    def _list(self, fd: int) -> _StoreFolder:
        stamp = _stamp(os.fstat(fd))
        is_settled = stamp[1] < time.time_ns() - _SETTLED_NS
        names, folders = _names(fd)
        self._budget.take(files=len(names))
        files = {name: self._hold(name, fd) for name in names if not name.endswith(".lock")}
        return _StoreFolder(stamp, is_settled, files, folders)

    def _hold(self, name: str, folder: int) -> bytes | OpenFile:
        fd = os.open(name, _READ, dir_fd=folder)
        try:
            content = os.read(fd, _READ_BYTES + 1)
            if len(content) <= _READ_BYTES:
                self._budget.take(read_bytes=len(content))
                return content
            return self._cache.hold(fd, self.stack, self._budget.limits.open_files)
        finally:
            os.close(fd)

    def restore(self) -> Path | None:
        """Return the folder into which something was put back. Raises OSError."""
        if _is_store(self._folder):
            existing = self._existing()
            lost = self._lost_refs(existing) | self._lost_objects(existing)
            # It may have been moved: then nothing is lost, and it is not made a second time.
            if not lost or not self._is_in_place():
                return None
            _put_back(self.store, lost)
            return self.store
        place = self.store
        with suppress(OSError), open_folder_beneath(place, flags=LISTED) as folder:
            if _is_store(folder):
                # Another repository has taken its place.
                place = place.with_name(f"{place.name}.kept")
        for name in _FOLDERS:
            with open_folder_beneath(place / name, create=True):
                pass
        _put_back(place, self._files)
        return place

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self.store), os.fstat(self._folder))
        except OSError:
            return False

    def _existing(self) -> set[str]:
        """Return the paths of the files that there are now."""
        existing: set[str] = set()
        folders: dict[str, _StoreFolder] = {}
        for name, fd in _walk(self._folder, folders):
            before = self.folders.get(name)
            if before is None or not before.is_settled or before.stamp != _stamp(os.fstat(fd)):
                names, inner = _names(fd)
                before = _StoreFolder((0, 0), False, dict.fromkeys(names, b""), inner)
            folders[name] = before
            existing.update(f"{name}{file}" for file in before.files)
        return existing

    def _lost_refs(self, existing: Collection[str]) -> dict[str, bytes | OpenFile]:
        """Return the refs that are gone while their log remains: git removes it with them. Where
        an older value shows in `packed-refs`, git would have written that file."""
        is_packed_anew = self._packed_stamp != self._stamp_of_packed()
        has_lost_files = any(
            name.startswith("refs/") and name not in existing for name in self._files
        )
        if not is_packed_anew and not has_lost_files:
            return {}
        before, now = _refs(self._files, self._content), _refs(existing, self._read)
        lost: dict[str, bytes | OpenFile] = {}
        for ref, commit in before.items():
            is_older = ref not in existing and now.get(ref) != commit and not is_packed_anew
            if (ref not in now or is_older) and f"logs/{ref}" in existing:
                lost[ref] = self._files.get(ref, f"{commit}\n".encode())
        return lost

    def _lost_objects(self, existing: Collection[str]) -> dict[str, bytes | OpenFile]:
        """Return the objects that are gone, all of them, as soon as a pack is among them and no
        real new one was written, or as soon as git cannot find what it never drops: the object of
        a ref or of a log that there is."""
        missing = {
            name: content
            for name, content in self._files.items()
            if name.startswith(_OBJECTS) and name not in existing
        }
        if not missing:
            return {}
        tips = {*_refs(existing, self._read).values(), *_hashes(self._read("HEAD"))} - {""}
        for name in existing:
            if _LOG.match(name):
                tips.update(_hashes(self._read(name)))
        indexes_before = [
            PackIndex(index) for name, index in self._files.items() if _INDEX.fullmatch(name)
        ]
        sought = {
            bytes.fromhex(tip)
            for tip in tips
            if (loose := _loose(tip)) in self._files or _is_listed(tip, indexes_before)
            if not (loose in existing and self._is_whole(tip))
        }
        is_packed_anew = False
        for name in existing:
            if _INDEX.fullmatch(name):
                with self._intact_index(name) as index:
                    if index is not None:
                        sought -= {tip for tip in sought if index.lists(tip)}
                        is_packed_anew |= name not in self._files
        if sought or (any(map(_PACK.fullmatch, missing)) and not is_packed_anew):
            return missing
        return {}

    def _is_whole(self, name: str) -> bool:
        """Return whether a loose object is what its name promises."""
        try:
            with self._open(_loose(name)) as fd, open(fd, "rb", closefd=False) as file:
                packed = file.read(_MOST_OBJECT_BYTES)
            content = zlib.decompressobj().decompress(packed, _MOST_OBJECT_BYTES)
        except (OSError, zlib.error):
            return False
        digest = hashlib.sha1 if len(name) == _SHA1_DIGITS else hashlib.sha256
        return digest(content, usedforsecurity=False).hexdigest() == name

    @contextmanager
    def _intact_index(self, name: str) -> Iterator[PackIndex | None]:
        """Open an index, if it and its pack are whole."""
        with ExitStack() as stack:
            try:
                packed = f"{name.removesuffix('.idx')}.pack"
                index_file, pack_file = (
                    OpenFile.of(stack.enter_context(self._open(part))) for part in (name, packed)
                )
                index = PackIndex(index_file)
                is_intact = index.describes(pack_file)
            except OSError:
                is_intact = False
            yield index if is_intact else None

    def _stamp_of_packed(self) -> tuple[int, int] | None:
        try:
            return _stamp(os.stat(_PACKED, dir_fd=self._folder, follow_symlinks=False))
        except OSError:
            return None

    def _content(self, name: str) -> str:
        """Return the text of a file as it was."""
        content = self._files[name]
        if isinstance(content, OpenFile):
            content = content.read(_MOST_TEXT_BYTES)
        return content.decode("utf-8", "replace")

    def _read(self, name: str) -> str:
        """Return the text of a file as it is; empty for one that cannot be read."""
        try:
            with self._open(name) as fd, open(fd, "rb", closefd=False) as file:
                return file.read(_MOST_TEXT_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """Open a file as it is. Raises OSError."""
        *folders, last = name.split("/")
        with ExitStack() as stack:
            folder = self._folder
            for part in folders:
                folder = open_subfolder(part, folder, flags=LISTED)
                stack.callback(os.close, folder)
            fd = os.open(last, _READ, dir_fd=folder)
            stack.callback(os.close, fd)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
            yield fd


def _put_back(place: Path, files: Mapping[str, bytes | OpenFile]) -> None:
    for name, content in files.items():
        path = place / name
        # git makes objects read-only.
        mode = 0o444 if name.startswith(_OBJECTS) else 0o644
        with open_folder_beneath(path.parent, create=True) as folder:
            try:
                fd = os.open(path.name, _NEW, mode, dir_fd=folder)
            except FileExistsError:
                continue
        with open(fd, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
                continue
            # It may have grown since.
            while data := content.read(_COPIED_BYTES, file.tell()):
                file.write(data)


def _walk(
    folder: int, listed: Mapping[str, _StoreFolder], path: str = ""
) -> Iterator[tuple[str, int]]:
    """Yield each folder of a store, as a prefix of names in it, and a descriptor; the caller puts
    it into `listed` before it asks for the next one. No link is followed."""
    yield path, folder
    for name in listed[path].folders:
        inner_path = f"{path}{name}/"
        if inner_path.count("/") > _MOST_LEVELS:
            raise _LimitExceeded
        if inner_path in _LEFT_OUT:
            continue
        try:
            inner = os.open(name, LISTED, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from _walk(inner, listed, inner_path)
        finally:
            os.close(inner)


def _names(folder: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the files and of the folders in an open folder."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
    return files, tuple(folders)


def _stamp(info: os.stat_result) -> tuple[int, int]:
    return info.st_ino, info.st_mtime_ns


def _refs(names: Collection[str], read: Callable[[str], str]) -> dict[str, str]:
    """Return the refs of these files, by their full names, and the commits that they point at."""
    refs = {}
    if _PACKED in names:
        refs = {ref: commit for commit, ref in _PACKED_REF.findall(read(_PACKED))}
    for name in names:
        if name.startswith("refs/"):
            refs[name] = next(_hashes(read(name)), "")
    return refs


def _is_store(folder: int) -> bool:
    """Return whether git would take the open folder for a repository."""
    try:
        os.stat("HEAD", dir_fd=folder, follow_symlinks=False)
        return all(
            stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            for name in _FOLDERS
        )
    except OSError:
        return False


def _hashes(text: str) -> Iterator[str]:
    return (match[0] for match in _HASH.finditer(text))


def _loose(name: str) -> str:
    """Return where an object lies outside of packs."""
    return f"{_OBJECTS}{name[:2]}/{name[2:]}"


def _is_listed(name: str, indexes: Iterable[PackIndex]) -> bool:
    return any(index.lists(bytes.fromhex(name)) for index in indexes)
