"""History of one git store before a command, and restoration of files that the command removed."""

import errno
import hashlib
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.security.files.instruction_files import GIT
from agent.security.files.safe_open import LISTED, open_folder_beneath, open_subfolder
from agent.tools.repositories.store_files import (
    OBJECTS,
    STORE_FOLDERS,
    HistoryCache,
    HoldingBudget,
    OpenFile,
    PackIndex,
    StoreFolder,
    history_names,
    is_store,
    put_back,
    stamp_of,
    walk_history,
)

_READ_BYTES = 64_000
# A command may have made a file of refs arbitrarily large.
_MAX_TEXT_BYTES = 64_000_000
_MAX_OBJECT_BYTES = 64_000_000
# A folder changed this shortly before it was listed may change again unnoticed.
_SETTLED_NS = 1_000_000_000
_PACKED = "packed-refs"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_INDEX = re.compile(r"objects/pack/.*\.idx")
_PACK = re.compile(r"objects/pack/.*\.pack")
_LOG = re.compile(r"(?:worktrees/[^/]+/)?logs/")
# Folders that git does not remove when they are empty.
_LASTING_FOLDER = re.compile(r"(?:logs/)?(?:refs/)?|(?:logs/)?refs/[^/]+/")
_SYMBOLIC = "ref: "
# Last line of the log of HEAD after git deleted its branch.
_DELETED = re.compile(r"[0-9a-f]+ 0+ ")
_SHA1_DIGITS = 40
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PACKED_REF = re.compile(rf"^({_HASH.pattern}) (refs/\S+)$", re.MULTILINE)


class HistoryCopy:
    """Copies of the files of one store, by their path in it: bytes, or an open file.

    `stack` closes the open files.
    """

    def __init__(
        self, store: Path, cache: HistoryCache, budget: HoldingBudget, stack: ExitStack
    ) -> None:
        self.store = store
        self.folders: dict[str, StoreFolder] = {}
        self.stack = stack
        self._cache = cache
        self._budget = budget
        self._files: dict[str, bytes | OpenFile] = {}
        with open_folder_beneath(store.parent) as parent:
            self._folder = open_subfolder(store.name, parent, flags=LISTED)
        stack.callback(os.close, self._folder)
        self._work_tree = _work_tree_of(store)
        self._work_tree_stat = None if self._work_tree is None else os.lstat(self._work_tree)
        self._packed_stamp = self._stamp_of_packed()

    def read(self) -> None:
        """Read small files and open the rest. Raises OSError and `LimitExceeded`."""
        cached = self._cache.folders.get(self.store, {})
        for name, fd in walk_history(self._folder, self.folders, is_strict=True):
            earlier = cached.get(name)
            if earlier is not None and earlier.stamp == stamp_of(os.fstat(fd)):
                self._budget.take(files=len(earlier.files), read_bytes=earlier.read_bytes)
                self.folders[name] = earlier
            else:
                self.folders[name] = self._list(name, fd)
        self._files = {
            f"{name}{file}": content
            for name, folder in self.folders.items()
            for file, content in folder.files.items()
        }

    def _list(self, path: str, fd: int) -> StoreFolder:
        stamp = stamp_of(os.fstat(fd))
        is_settled = stamp[1] < time.time_ns() - _SETTLED_NS
        names, folders = history_names(fd, path)
        self._budget.take(files=len(names) + 1)
        files = {}
        for name in names:
            # Another command may delete it meanwhile.
            with suppress(FileNotFoundError):
                files[name] = self._hold(name, fd)
        return StoreFolder(stamp, is_settled, files, folders)

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
        """Restore lost files and return their folder. Raises OSError."""
        if is_store(self._folder) and not self._left_its_work_tree():
            existing, folders = self._existing()
            lost = self._lost_refs(existing, folders)
            lost |= self._lost_objects(existing, [*lost])
            # If the store was moved, nothing is lost and no second copy is made.
            if not lost or not self._is_in_place():
                return None
            put_back(self.store, lost)
            return self.store
        place = self.store
        with suppress(OSError), open_folder_beneath(place, flags=LISTED) as folder:
            if is_store(folder):
                # Another repository has taken its place.
                place = place.with_name(f"{place.name}.kept")
        for name in STORE_FOLDERS:
            with open_folder_beneath(place / name, create=True):
                pass
        put_back(place, self._files)
        return place

    def _left_its_work_tree(self) -> bool:
        """Return whether the store was moved away from a work tree that still exists.

        It may now be in a folder whose files are temporary; git itself leaves a file in its place.
        """
        if self._work_tree is None or self._work_tree_stat is None:
            return False
        if os.path.lexists(self.store):
            return False
        try:
            return os.path.samestat(os.lstat(self._work_tree), self._work_tree_stat)
        except OSError:
            return False

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self.store), os.fstat(self._folder))
        except OSError:
            return False

    def _existing(self) -> tuple[set[str], Collection[str]]:
        """Return the paths of the current files and folders."""
        existing: set[str] = set()
        folders: dict[str, StoreFolder] = {}
        for name, fd in walk_history(self._folder, folders, is_strict=False):
            before = self.folders.get(name)
            if before is None or not before.is_settled or before.stamp != stamp_of(os.fstat(fd)):
                names, inner = history_names(fd, name)
                before = StoreFolder((0, 0), False, dict.fromkeys(names, b""), inner)
            folders[name] = before
            existing.update(f"{name}{file}" for file in before.files)
        return existing, folders.keys()

    def _lost_refs(
        self, existing: Collection[str], folders: Collection[str]
    ) -> dict[str, bytes | OpenFile]:
        """Return the refs that are gone while their log remains: git removes both together.

        If an older value is visible in `packed-refs`, git would have written that file. If anything
        is gone that git never deletes, return all lost refs and their logs.
        """
        is_packed_anew = self._packed_stamp != self._stamp_of_packed()
        has_lost_files = any(
            name.startswith(("refs/", "logs/")) and name not in existing for name in self._files
        )
        if not is_packed_anew and not has_lost_files:
            return {}
        before, now = _refs(self._files, self._content), _refs(existing, self._read)
        is_plain = self._are_refs_deleted_as_files(existing, folders) or self._lacks_branch(
            before, now, existing
        )
        lost: dict[str, bytes | OpenFile] = {}
        for ref, commit in before.items():
            is_older = ref not in existing and now.get(ref) != commit and not is_packed_anew
            if is_older or (ref not in now and (is_plain or f"logs/{ref}" in existing)):
                lost[ref] = self._files.get(ref, f"{commit}\n".encode())
        if is_plain:
            for name in ("HEAD", *now, *lost):
                if (log := f"logs/{name}") in self._files and log not in existing:
                    lost[log] = self._files[log]
        return lost

    def _are_refs_deleted_as_files(
        self, existing: Collection[str], folders: Collection[str]
    ) -> bool:
        """Return whether a file or folder is gone that git preserves when it deletes refs.

        Git empties `packed-refs`, and folders such as `refs/heads`, but never removes them.
        """
        return any(
            name in self._files and name not in existing for name in (_PACKED, "logs/HEAD")
        ) or any(
            folder not in folders for folder in self.folders if _LASTING_FOLDER.fullmatch(folder)
        )

    def _lacks_branch(
        self, before: Collection[str], now: Collection[str], existing: Collection[str]
    ) -> bool:
        """Return whether the current branch is gone and the log of `HEAD` does not record it."""
        branch = self._read("HEAD").removeprefix(_SYMBOLIC).strip()
        if branch not in before or branch in now or "logs/HEAD" not in existing:
            return False
        *_, last = ["", *self._read("logs/HEAD").splitlines()]
        return not _DELETED.match(last)

    def _lost_objects(
        self, existing: Collection[str], lost_refs: Collection[str]
    ) -> dict[str, bytes | OpenFile]:
        """Return the lost objects.

        All lost objects are returned if they include a pack and no valid new pack was written, or
        if git cannot find an object that it never drops, that is, the object of an existing ref or
        log.
        """
        missing = {
            name: content
            for name, content in self._files.items()
            if name.startswith(OBJECTS) and name not in existing
        }
        if not missing:
            return {}
        tips = {*_refs(existing, self._read).values(), *_hashes(self._read("HEAD"))} - {""}
        for name in existing:
            if _LOG.match(name):
                tips.update(_hashes(self._read(name)))
        for name in lost_refs:
            tips.update(_hashes(self._content(name)) if name in self._files else ())
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
        """Return whether the content of a loose object matches its name."""
        try:
            with self._open(_loose(name)) as fd, open(fd, "rb", closefd=False) as file:
                packed = file.read(_MAX_OBJECT_BYTES)
            content = zlib.decompressobj().decompress(packed, _MAX_OBJECT_BYTES)
        except (OSError, zlib.error):
            return False
        digest = hashlib.sha1 if len(name) == _SHA1_DIGITS else hashlib.sha256
        return digest(content, usedforsecurity=False).hexdigest() == name

    @contextmanager
    def _intact_index(self, name: str) -> Iterator[PackIndex | None]:
        """Open an index if it and its pack are intact."""
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
            return stamp_of(os.stat(_PACKED, dir_fd=self._folder, follow_symlinks=False))
        except OSError:
            return None

    def _content(self, name: str) -> str:
        """Return the text of a file before the command."""
        content = self._files[name]
        if isinstance(content, OpenFile):
            content = content.read(_MAX_TEXT_BYTES)
        return content.decode("utf-8", "replace")

    def _read(self, name: str) -> str:
        """Return the current text of a file; empty if it is unreadable."""
        try:
            with self._open(name) as fd, open(fd, "rb", closefd=False) as file:
                return file.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """Open the current file. Raises OSError."""
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


def _work_tree_of(store: Path) -> Path | None:
    """Return the folder whose `.git` contains the store; None for a bare repository."""
    return next((path.parent for path in (store, *store.parents) if path.name == GIT), None)


def _refs(names: Collection[str], read: Callable[[str], str]) -> dict[str, str]:
    """Return the refs of these files, by full name, and the commits that they point at."""
    refs = {}
    if _PACKED in names:
        refs = {ref: commit for commit, ref in _PACKED_REF.findall(read(_PACKED))}
    for name in names:
        if name.startswith("refs/"):
            refs[name] = next(_hashes(read(name)), "")
    return refs


def _hashes(text: str) -> Iterator[str]:
    return (match[0] for match in _HASH.finditer(text))


def _loose(name: str) -> str:
    """Return the path of an object outside of packs."""
    return f"{OBJECTS}{name[:2]}/{name[2:]}"


def _is_listed(name: str, indexes: Iterable[PackIndex]) -> bool:
    return any(index.lists(bytes.fromhex(name)) for index in indexes)
