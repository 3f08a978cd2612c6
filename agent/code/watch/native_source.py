"""Watch source for macOS: one watch for a whole tree, by watchfiles."""

import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from agent.code.watch.changes import ChangeKind, ChangeSet
from agent.code.watch.folder_filter import FolderFilter
from agent.code.watch.source import WatchLimits, WatchUnavailable, existing_folder
from agent.security.files.ignore_rules import NAME

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_KINDS: dict[int, ChangeKind] = {1: "created", 2: "changed", 3: "deleted"}
# Interval of checks for events of the watcher's thread.
_STEP_MS = 25
_MAX_WAIT_S = 60.0


class NativeSource:
    """Source of changes on systems that watch whole trees, independent of the number of folders."""

    def __init__(self, root: Path, limits: WatchLimits) -> None:
        self._root, self._limits = root, limits
        self._filter = FolderFilter(root)
        self._notify: RustNotify | None = None
        self._unread: set[tuple[int, str]] = set()
        self._woken = threading.Event()

    @property
    def folders(self) -> int:
        return 1

    def open(self) -> None:
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

        existing_folder(self._root)
        self._filter = FolderFilter(self._root)
        try:
            self._notify = RustNotify([str(self._root)], False, False, 0, True, True)
        except (OSError, WatchfilesRustInternalError) as exc:
            raise WatchUnavailable(f"cannot watch {self._root}: {exc}") from exc

    def wait(self, timeout_s: float | None) -> None:
        assert self._notify is not None, "open"
        timeout_ms = int((_MAX_WAIT_S if timeout_s is None else timeout_s) * 1000) + 1
        result = self._notify.watch(_STEP_MS, _STEP_MS, timeout_ms, self._woken)
        self._woken.clear()
        if isinstance(result, set):
            self._unread |= result

    def read(self, into: ChangeSet) -> None:
        unread, self._unread = self._unread, set()
        if any(path.endswith(f"/{NAME}") for _, path in unread):
            self._filter = FolderFilter(self._root)
        kinds: dict[str, set[ChangeKind]] = {}
        for number, path in unread:
            kinds.setdefault(path, set()).add(_KINDS[number])
        for path, path_kinds in kinds.items():
            if path == str(self._root):
                existing_folder(self._root)
            elif (inside := path.removeprefix(f"{self._root}/")) != path:
                self._add(inside, Path(path), path_kinds, into)

    def _add(self, inside: str, path: Path, kinds: set[ChangeKind], into: ChangeSet) -> None:
        if path.is_dir():
            if "created" in kinds and not self._filter.hides(inside, is_folder=True):
                self._add_tree(inside, into)
            return
        if self._filter.hides(inside):
            return
        if "deleted" in kinds and not path.exists():
            into.add(str(path), "deleted")
        else:
            into.add(str(path), "created" if "created" in kinds else "changed")

    def _add_tree(self, top: str, into: ChangeSet) -> None:
        """Add all files of a new folder: events of files created right away may be missing."""
        waiting = deque([top])
        for _ in range(self._limits.folders):
            if not waiting:
                return
            listing = self._filter.list(waiting.popleft())
            waiting.extend(listing.folders)
            for entry in listing.files:
                into.add(entry.path, "created")

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None
