"""Snapshots of all files in a folder, with contents stored and fingerprints to detect changes.

The walk uses descriptors and follows no links. It skips `.git`, `node_modules`, ignored files and
Kore's own folder.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.records import frozen
from agent.security.files.ignore_rules import MAX_BYTES as IGNORES_BYTES
from agent.security.files.ignore_rules import Ignores
from agent.security.files.paths import normalize_filename
from agent.security.files.safe_open import (
    LISTED,
    open_folder_beneath,
    open_regular,
    open_regular_beneath,
    open_subfolder,
)
from agent.security.taint.file_marks import is_marked
from agent.undo.blob_store import BlobStore
from agent.undo.records import FileState

MAX_FILE_BYTES = 2_000_000
MAX_TREE_BYTES = 250_000_000
MAX_TREE_ENTRIES = 50_000
# Each level of the walk needs a descriptor.
MAX_TREE_DEPTH = 200
LEFT_OUT = frozenset({".git", "node_modules"})
# Returns True for a real path that is never recorded.
IsHidden = Callable[[Path], bool]
# A file read this soon after its change may change again unnoticed.
_TIMESTAMP_GRANULARITY_NS = 1_000_000_000


@frozen
class SnapshotLimits:
    """Limits of a snapshot: bytes per file, bytes of all files, and number of entries."""

    file_bytes: int = MAX_FILE_BYTES
    tree_bytes: int = MAX_TREE_BYTES
    entries: int = MAX_TREE_ENTRIES


@frozen
class SnapshotEntry:
    """State of a path. `stamp` changes with the file (times, size, inode, mode)."""

    state: FileState
    stamp: tuple[int, ...]
    read_at_ns: int = 0

    def is_sure(self, stamp: tuple[int, ...]) -> bool:
        """Return whether a path with this stamp is certain to be unchanged."""
        return self.stamp == stamp and stamp[1] < self.read_at_ns - _TIMESTAMP_GRANULARITY_NS


@dataclass(slots=True)
class FolderSnapshot:
    """Entries by path below the root.

    `is_cut`: there are more entries than the limit. `is_full`: there are more bytes than can be
    stored. `unreadable_folders` could not be listed or entered; `files_read` counts the files that
    were read.
    """

    entries: dict[str, SnapshotEntry] = field(default_factory=dict)
    is_cut: bool = False
    is_full: bool = False
    unreadable_folders: set[str] = field(default_factory=set)
    files_read: int = 0


class SnapshotWalker:
    """Walker that visits the same folder repeatedly, by the rules of the first walk.

    Otherwise, a new `.gitignore` would make files look new or deleted.
    """

    def __init__(
        self,
        root: Path,
        blobs: BlobStore,
        closed: Collection[Path] = (),
        limits: SnapshotLimits | None = None,
        is_hidden: IsHidden | None = None,
    ) -> None:
        self.root = root
        self.limits = limits or SnapshotLimits()
        self.blobs = blobs
        self._closed = frozenset(str(p.relative_to(root)) for p in closed if _is_in(p, root))
        self._is_hidden = is_hidden
        self._is_complete = False
        self._ignored_by_path: dict[tuple[tuple[str, ...], bool], bool] = {}
        self._ignores = Ignores(root, root, self._ignore_file)

    def tree(self, earlier: Mapping[str, SnapshotEntry]) -> FolderSnapshot:
        """Return a snapshot; files unchanged since `earlier` are not read again.

        Raises `OSError` when the folder itself is unreadable, or contents cannot be stored.
        """
        tree = FolderSnapshot()
        self.blobs.expire_hourly()
        look = _SnapshotPass(self, tree, earlier)
        with open_folder_beneath(self.root, flags=LISTED) as folder:
            look.folder(folder, ())
        self._is_complete = True
        return tree

    def survey(self) -> FolderSnapshot:
        """Return the entries of a snapshot without reading or storing files. Raises `OSError`.

        Files that a snapshot would store count as known.
        """
        tree = FolderSnapshot()
        look = _Survey(self, tree, {})
        with open_folder_beneath(self.root, flags=LISTED) as folder:
            look.folder(folder, ())
        return tree

    def is_closed(self, parts: tuple[str, ...]) -> bool:
        """Return whether tools may not open the path."""
        if parts[:1] == (".kore",) or "/".join(parts) in self._closed:
            return True
        return self._is_hidden is not None and self._is_hidden(self.root.joinpath(*parts))

    def leaves_out(self, parts: tuple[str, ...], *, is_folder: bool) -> bool:
        name = parts[-1]
        if is_folder and (normalize_filename(name) in LEFT_OUT or parts == (".kore",)):
            return True
        if "/".join(parts) in self._closed:
            return True
        # The walk after the command asks about the same paths again.
        if (parts, is_folder) not in self._ignored_by_path:
            self._ignored_by_path[parts, is_folder] = self.is_closed(parts) or (
                self._ignores.hides(parts, is_folder=is_folder)
            )
        return self._ignored_by_path[parts, is_folder]

    def _ignore_file(self, path: Path) -> bytes | None:
        if self._is_complete:
            return None
        try:
            with open_regular_beneath(path) as file:
                return file.read(IGNORES_BYTES)
        except OSError:
            return None


class _SnapshotPass:
    """Single walk."""

    def __init__(
        self, walk: SnapshotWalker, tree: FolderSnapshot, earlier: Mapping[str, SnapshotEntry]
    ) -> None:
        self._walk = walk
        self._tree = tree
        self._earlier = earlier
        self._stored_names = walk.blobs.names()
        # Contents of the same snapshot must not be dropped to make room.
        self._needed = {entry.state.value for entry in earlier.values()}
        self._is_full = False
        self._room_bytes = walk.limits.tree_bytes

    def folder(self, folder: int, above: tuple[str, ...]) -> None:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            if len(self._tree.entries) >= self._walk.limits.entries:
                self._tree.is_cut = True
                return
            parts = (*above, entry.name)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._walk.leaves_out(parts, is_folder=is_folder):
                    continue
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # deleted since the folder was listed
            except PermissionError:
                # With mode r-- the names can be listed, but nothing else is known.
                if not above:
                    raise
                self._tree.unreadable_folders.add("/".join(above))
                return
            try:
                self._entry(entry.name, parts, info, folder)
            except FileNotFoundError:
                continue

    def _entry(self, name: str, parts: tuple[str, ...], info: os.stat_result, folder: int) -> None:
        path = "/".join(parts)
        stamp = (info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino, info.st_mode)
        mode = info.st_mode & 0o777
        if stat.S_ISDIR(info.st_mode):
            self._tree.entries[path] = SnapshotEntry(FileState("folder", mode=mode), ())
            self._enter(name, parts, folder)
        elif stat.S_ISLNK(info.st_mode):
            state = FileState("link", os.readlink(name, dir_fd=folder))
            self._tree.entries[path] = SnapshotEntry(state, stamp)
        elif stat.S_ISREG(info.st_mode):
            self._tree.entries[path] = self._file(name, path, stamp, folder)

    def _enter(self, name: str, parts: tuple[str, ...], above: int) -> None:
        if len(parts) > MAX_TREE_DEPTH:
            self._tree.unreadable_folders.add("/".join(parts))
            return
        try:
            folder = open_subfolder(name, above, flags=LISTED)
        except OSError:
            self._tree.unreadable_folders.add("/".join(parts))
            return
        try:
            self.folder(folder, parts)
        finally:
            os.close(folder)

    def _file(self, name: str, path: str, stamp: tuple[int, ...], folder: int) -> SnapshotEntry:
        size, mode = stamp[2], stamp[4] & 0o777
        entry = self._earlier.get(path)
        self._room_bytes -= size
        if entry is not None and entry.is_sure(stamp) and entry.state.value in self._stored_names:
            return entry
        unknown = SnapshotEntry(FileState("file", mode=mode), stamp)
        if size > self._walk.limits.file_bytes:
            self._room_bytes += size
            return unknown
        if self._room_bytes < 0 or self._is_full:
            self._tree.is_full = True
            return unknown
        return self._store(name, path, stamp, folder) or unknown

    def _store(
        self, name: str, path: str, stamp: tuple[int, ...], folder: int
    ) -> SnapshotEntry | None:
        """Store a file and return its entry; None when it cannot be stored."""
        size, mode = stamp[2], stamp[4] & 0o777
        try:
            with open_regular(name, folder=folder, follow_links=False) as file:
                # Another hard link of the file may be outside.
                if os.fstat(file.fileno()).st_nlink > 1:
                    return None
                now = time.time_ns()
                data = file.read(self._walk.limits.file_bytes + 1)
        except OSError:
            return None
        self._tree.files_read += 1
        value, is_stored = self._walk.blobs.put(data, self._needed)
        self._is_full = not is_stored
        if not is_stored or len(data) != size:
            return None
        self._needed.add(value)
        is_tainted = is_marked(self._walk.root / path)
        return SnapshotEntry(FileState("file", value, mode, is_tainted), stamp, now)


class _Survey(_SnapshotPass):
    """Walk that stores nothing."""

    def _store(
        self, name: str, path: str, stamp: tuple[int, ...], folder: int
    ) -> SnapshotEntry | None:
        # Cheaper than opening each file, since it runs before every deletion.
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_nlink > 1:
            return None
        if not os.access(name, os.R_OK, dir_fd=folder, effective_ids=True):
            return None
        return SnapshotEntry(FileState("file", "kept", stamp[4] & 0o777), stamp)


def _is_in(path: Path, root: Path) -> bool:
    return path != root and path.is_relative_to(root)
