"""Watch source that scans all files, for network file systems."""

import threading
import time
from collections import deque
from pathlib import Path

from agent.code.watch.changes import ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.source import WatchLimits, existing_folder

# Maximum share of the time spent scanning.
_MAX_SHARE = 0.02
_FileStamp = tuple[int, int, int]


class PollSource:
    """Source that scans the top folders every `poll_s`, or less often if a scan takes long."""

    def __init__(self, root: Path, limits: WatchLimits) -> None:
        self._root, self._limits = root, limits
        self._stamps: dict[str, _FileStamp] = {}
        self._folders = 0
        self._next_scan = 0.0
        self._woken = threading.Event()

    @property
    def folders(self) -> int:
        return self._folders

    def open(self) -> None:
        existing_folder(self._root)
        self._stamps = self._scan()

    def wait(self, timeout_s: float | None) -> None:
        until_scan = max(0.0, self._next_scan - time.monotonic())
        self._woken.wait(until_scan if timeout_s is None else min(timeout_s, until_scan))
        self._woken.clear()

    def read(self, into: ChangeSet) -> None:
        if time.monotonic() < self._next_scan:
            return
        existing_folder(self._root)
        before, self._stamps = self._stamps, self._scan()
        for path, stamp in self._stamps.items():
            if path not in before:
                into.add(path, "created")
            elif before[path] != stamp:
                into.add(path, "changed")
        for path in before.keys() - self._stamps.keys():
            into.add(path, "deleted")

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._stamps = {}

    def _scan(self) -> dict[str, _FileStamp]:
        began = time.monotonic()
        folder_filter = FolderFilter(self._root)
        stamps: dict[str, _FileStamp] = {}
        waiting = deque([""])
        self._folders = 0
        while waiting and self._folders < self._limits.poll_folders:
            self._folders += 1
            listing = folder_filter.list(waiting.popleft())
            waiting.extend(listing.folders)
            for entry in listing.files[: self._limits.poll_files - len(stamps)]:
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                stamps[entry.path] = (info.st_mtime_ns, info.st_size, info.st_ino)
        ended = time.monotonic()
        self._next_scan = ended + max(self._limits.poll_s, (ended - began) / _MAX_SHARE)
        return stamps
