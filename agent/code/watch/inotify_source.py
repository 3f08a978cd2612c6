"""Watch source for Linux: inotify, one watch per folder."""

import errno
import logging
import os
import re
import select
import time
from collections import deque
from pathlib import Path

from agent.code.watch import inotify
from agent.code.watch.changes import ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.inotify import Inotify, InotifyEvent
from agent.code.watch.source import RootGone, WatchLimits, WatchUnavailable, existing_folder
from agent.security.files.ignore_rules import NAME

log = logging.getLogger(__name__)

MOUNTINFO = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gpfs"),
        *("lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs"),
        *("fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"),
        *("fuse.sshfs", "fuse.vmhgfs-fuse", "vmhgfs"),
    )
)


def mount_types(text: str) -> dict[str, str]:
    """Return the file system type of each mount point; the last mount wins."""
    types = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) > 4 and kind:
            # Spaces and some other characters are octal escapes.
            folder = re.sub(r"\\([0-7]{3})", lambda number: chr(int(number[1], 8)), fields[4])
            types[folder] = kind
    return types


def network_mounts(mountinfo: Path = MOUNTINFO) -> list[str]:
    """Return the mount points of network file systems; none if the system does not list them."""
    return [folder for folder, kind in _read(mountinfo).items() if kind in _NETWORK]


def is_on_network(path: Path, mountinfo: Path = MOUNTINFO) -> bool:
    types = _read(mountinfo)
    mount_point = next(
        (str(folder) for folder in (path, *path.parents) if str(folder) in types), ""
    )
    return types.get(mount_point) in _NETWORK


def _read(mountinfo: Path) -> dict[str, str]:
    try:
        return mount_types(mountinfo.read_text("utf-8", "surrogateescape"))
    except OSError:
        return {}


_CHANGES = inotify.CREATE | inotify.MODIFY | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_MASK = _CHANGES | inotify.ONLY_FOLDERS | inotify.NO_LINKS
_ROOT_MASK = _CHANGES | inotify.ONLY_FOLDERS | inotify.DELETE_SELF | inotify.MOVE_SELF
_ENDS = inotify.UNMOUNT | inotify.DELETE_SELF | inotify.MOVE_SELF
# Minimum time between two walks over a tree: a program may write .gitignore all the time.
_MIN_WALK_INTERVAL_S = 1.0
# Reads per call, so that batches are delivered while a program keeps writing.
_MAX_READS = 64
UNWATCHED = "changes there are noticed at the next message and after each tool call"


class InotifySource:
    """Changes from inotify. Folder paths are relative to the root, which is the empty string."""

    def __init__(self, root: Path, limits: WatchLimits) -> None:
        self._root, self._limits = root, limits
        self._inotify: Inotify | None = None
        self._filter = FolderFilter(root)
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._wake_read, select.POLLIN)
        # Files found in a new folder before their creation event was read.
        self._listed: set[str] = set()
        self._walk_at: float | None = None
        self._walked_at = 0.0
        self._has_warned = False

    @property
    def folders(self) -> int:
        return len(self._watches)

    def open(self) -> None:
        existing_folder(self._root)
        if self._inotify is not None:
            self._poll.unregister(self._inotify.fd)
            self._inotify.close()
        self._paths, self._watches, self._walk_at = {}, {}, None
        self._listed.clear()
        try:
            self._inotify = Inotify()
        except OSError as exc:
            self._inotify = None
            raise WatchUnavailable(
                f"cannot watch {self._root}: {exc.strerror} (fs.inotify.max_user_instances); "
                + UNWATCHED
            ) from exc
        self._poll.register(self._inotify.fd, select.POLLIN)
        self._filter = self._new_filter()
        self._add_tree("", None)
        if not self._watches:
            existing_folder(self._root)
            raise WatchUnavailable(
                f"cannot watch {self._root} (fs.inotify.max_user_watches): {UNWATCHED}"
            )

    def wait(self, timeout_s: float | None) -> None:
        if self._walk_at is not None:
            until_walk = max(0.0, self._walk_at - time.monotonic())
            timeout_s = until_walk if timeout_s is None else min(timeout_s, until_walk)
        # Rounded up to avoid busy waiting during the last millisecond.
        ready = self._poll.poll(None if timeout_s is None else int(timeout_s * 1000) + 1)
        if any(fd == self._wake_read for fd, _ in ready):
            os.read(self._wake_read, 4096)

    def read(self, into: ChangeSet) -> None:
        assert self._inotify is not None, "open"
        for _ in range(_MAX_READS):
            happened = list(self._inotify.read())
            for event in happened:
                self._take(event, into)
            if not happened:
                # Later events happened after the folders were listed.
                self._listed.clear()
                break
        if self._walk_at is not None and time.monotonic() >= self._walk_at:
            self._walk_again(into)

    def wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except OSError:
            # A full pipe wakes the reader anyway, and a closed pipe has no reader.
            return

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        # The pipe is closed with the last reference: another thread may be about to wake this one.

    def __del__(self) -> None:
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _new_filter(self) -> FolderFilter:
        self._walked_at = time.monotonic()
        return FolderFilter(self._root, network_mounts())

    def _take(self, event: InotifyEvent, into: ChangeSet) -> None:
        if event.mask & inotify.OVERFLOW:
            log.info("the kernel dropped file changes in %s; scanning again", self._root)
            into.mark_incomplete()
            self._plan_walk()
            return
        folder = self._paths.get(event.watch)
        if folder is None:
            return
        if event.mask & inotify.IGNORED:
            self._forget(folder, event.watch)
        if event.mask & _ENDS and not folder:
            raise RootGone(f"{self._root} has gone")
        if not event.name or event.name == ".git":
            return
        path = f"{folder}/{event.name}" if folder else event.name
        if event.mask & inotify.IS_FOLDER:
            self._take_folder(path, event.mask, into)
            return
        if event.name == NAME:
            self._plan_walk()
        if not self._filter.hides(path):
            self._take_file(self._filter.absolute(path), event.mask, into)

    def _take_file(self, absolute: str, mask: int, into: ChangeSet) -> None:
        if mask & (inotify.DELETE | inotify.MOVED_FROM):
            into.add(absolute, "deleted")
        elif mask & inotify.MODIFY:
            into.add(absolute, "changed")
        elif mask & inotify.CREATE and absolute not in self._listed:
            into.add(absolute, "new")
        elif mask & (inotify.CREATE | inotify.MOVED_TO):
            into.add(absolute, "created")

    def _take_folder(self, path: str, mask: int, into: ChangeSet) -> None:
        if mask & (inotify.CREATE | inotify.MOVED_TO):
            if not self._filter.hides(path, is_folder=True):
                self._add_tree(path, into)
            return
        if path not in self._watches:
            return
        # A deleted folder loses its watch after its last events. A watch that is still alive means
        # that the folder was moved, or that another folder has its path now.
        was_alive = self._remove_tree(path)
        if was_alive or mask & inotify.MOVED_FROM:
            into.add_deleted_folder(self._filter.absolute(path))

    def _add_tree(self, top: str, into: ChangeSet | None) -> None:
        """Watch a folder and its subfolders, level by level; `into` receives their files as new."""
        waiting = deque([top])
        while waiting:
            folder = waiting.popleft()
            if not self._add(folder):
                continue
            # List the folder after adding the watch: files created meanwhile are found twice, not
            # missed.
            listing = self._filter.list(folder)
            waiting.extend(listing.folders)
            if into is not None:
                for entry in listing.files:
                    self._listed.add(entry.path)
                    into.add(entry.path, "created")

    def _add(self, folder: str) -> bool:
        """Return whether the folder is watched; a missing or unreadable folder is not."""
        assert self._inotify is not None, "open"
        if folder not in self._watches and len(self._watches) >= self._limits.folders:
            self._warn(f"has more than {self._limits.folders} folders")
            return False
        mask = _MASK if folder else _ROOT_MASK
        try:
            watch = self._inotify.add(self._filter.absolute(folder), mask)
        except OSError as exc:
            if exc.errno == errno.ENOSPC:
                self._warn("needs more watches than fs.inotify.max_user_watches leaves")
            return False
        self._paths[watch], self._watches[folder] = folder, watch
        return True

    def _warn(self, why: str) -> None:
        if self._watches and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s %s: only the top %d are watched; %s",
                *(self._root, why, len(self._watches), UNWATCHED),
            )

    def _remove_tree(self, top: str) -> bool:
        """Remove the watches of a tree. Return whether any of them was alive."""
        below = f"{top}/"
        folders = [folder for folder in self._watches if folder == top or folder.startswith(below)]
        were_alive = [self._remove(folder) for folder in folders]
        return any(were_alive)

    def _remove(self, folder: str) -> bool:
        """Remove a watch. Return whether it was alive."""
        assert self._inotify is not None, "open"
        watch = self._watches.pop(folder)
        # A folder that was moved has the same watch under its new path.
        if self._paths.get(watch) != folder:
            return True
        del self._paths[watch]
        try:
            self._inotify.remove(watch)
        except OSError:
            # The watch ended with its folder.
            return False
        return True

    def _forget(self, folder: str, watch: int) -> None:
        """Remove a watch that the kernel has ended."""
        del self._paths[watch]
        if self._watches.get(folder) == watch:
            del self._watches[folder]

    def _plan_walk(self) -> None:
        if self._walk_at is None:
            self._walk_at = max(time.monotonic(), self._walked_at + _MIN_WALK_INTERVAL_S)

    def _walk_again(self, into: ChangeSet) -> None:
        """Update the watches after a change of ignore rules or lost events."""
        self._walk_at = None
        self._filter = self._new_filter()
        folders_to_watch: set[str] = set()
        waiting = deque([""])
        while waiting and len(folders_to_watch) < self._limits.folders:
            folder = waiting.popleft()
            folders_to_watch.add(folder)
            if folder in self._watches:
                waiting.extend(self._filter.list(folder).folders)
            elif folder:
                before = set(self._watches)
                self._add_tree(folder, None)
                added = self._watches.keys() - before
                folders_to_watch |= added
                if added:
                    # Changes in these folders up to now are unknown.
                    into.mark_incomplete()
        for folder in [path for path in self._watches if path not in folders_to_watch]:
            self._remove(folder)
        if "" not in self._watches:
            raise RootGone(f"{self._root} has gone")
