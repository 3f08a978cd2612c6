"""Changes as a look at every file finds them: for disks of other computers, and slowly."""

import threading
import time
from collections import deque
from pathlib import Path

from agent.code.watch.changes import ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.source import WatchLimits, existing_folder

# At most this share of the time is spent looking.
_SHARE = 0.02
_FileStamp = tuple[int, int, int]


class PollSource:
    """Looks every `poll_s`, less often where a look takes long, and at the top folders only."""

    def __init__(self, root: Path, limits: WatchLimits) -> None:
        self._root, self._limits = root, limits
        self._stamps: dict[str, _FileStamp] = {}
        self._folders = 0
        self._next_look = 0.0
        self._woken = threading.Event()

    @property
    def folders(self) -> int:
        return self._folders

    def open(self) -> None:
        existing_folder(self._root)
        self._stamps = self._look()

    def wait(self, timeout_s: float | None) -> None:
        until_look = max(0.0, self._next_look - time.monotonic())
        self._woken.wait(until_look if timeout_s is None else min(timeout_s, until_look))
        self._woken.clear()

    def read(self, into: ChangeSet) -> None:
        if time.monotonic() < self._next_look:
            return
        existing_folder(self._root)
        before, self._stamps = self._stamps, self._look()
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

    def _look(self) -> dict[str, _FileStamp]:
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
        self._next_look = ended + max(self._limits.poll_s, (ended - began) / _SHARE)
        return stamps
