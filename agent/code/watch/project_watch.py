"""Watch of one root in its own thread, so that an event loop never waits for a disk."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from agent.code.watch.changes import ChangeBatch, ChangeSet
from agent.code.watch.inotify_source import InotifySource, is_on_network
from agent.code.watch.native_source import NativeSource
from agent.code.watch.poll_source import PollSource
from agent.code.watch.source import RootGone, WatchLimits, WatchSource, WatchUnavailable

log = logging.getLogger(__name__)

# Changes are delivered once no more follow for a moment, and after `_MAX_DELAY_S` at the latest.
_QUIET_INTERVAL_S = 0.015
_MAX_DELAY_S = 0.05
# More changes than a person makes at once: a program's work, delivered when it pauses.
MIN_BURST = 32
_BURST_QUIET_INTERVAL_S = 0.2
_BURST_MAX_DELAY_S = 2.0
# Interval of checks for a root that has disappeared.

# A thread that is cut off inside a C++ library at exit aborts the whole process.
_END_TIMEOUT_S = 5.0
_live_watches: "weakref.WeakSet[ProjectWatch]" = weakref.WeakSet()

# Called in the watch's thread with changes, and with None once the watch has begun.
Listener = Callable[[ChangeBatch | None], None]
MakeSource = Callable[[Path, WatchLimits], WatchSource]


def open_source(root: Path, limits: WatchLimits) -> WatchSource:
    """Return the watch source for a folder on this system."""
    if is_on_network(root):
        return PollSource(root, limits)
    if os.uname().sysname == "Linux":
        return InotifySource(root, limits)
    return NativeSource(root, limits)


class ProjectWatch:
    """Watch that ends with `close`, or when it has had no listener for a while. Thread-safe."""

    def __init__(
        self, root: Path, limits: WatchLimits, make_source: MakeSource = open_source
    ) -> None:
        self.root = root
        self._limits = limits
        self._make_source = make_source
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._idle_since = time.monotonic()
        self._has_begun = False
        self._closed = threading.Event()
        self._source: WatchSource | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {root}", daemon=True)
        atexit.register(_end_all)
        _live_watches.add(self)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set()

    @property
    def is_idle(self) -> bool:
        return not self._listeners

    @property
    def folders(self) -> int:
        """Number of watched folders."""
        return self._source.folders if self._source is not None else 0

    def listen(self, listener: Listener) -> bool:
        """Add a listener. Return False if the watch has ended and a new one is needed."""
        with self._lock:
            if self._closed.is_set():
                return False
            self._listeners.append(listener)
            if self._has_begun:
                listener(None)
            return True

    def leave(self, listener: Listener) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
                self._idle_since = time.monotonic()
        # Let the thread notice that it may end without listeners.
        self._wake()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
        self._wake()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the thread, after `close`."""
        self._thread.join(timeout_s)

    def _wake(self) -> None:
        if (source := self._source) is not None:
            source.wake()

    def _run(self) -> None:
        source: WatchSource | None = None
        try:
            source = self._source = self._make_source(self.root, self._limits)
            self._watch(source)
        except WatchUnavailable as exc:
            log.warning("%s", exc)
        finally:
            with self._lock:
                self._closed.set()
            # Unblock listeners of a watch that never began.
            self._begin()
            if source is not None:
                source.close()

    def _watch(self, source: WatchSource) -> None:
        is_gone = False
        while self.is_open:
            changes = ChangeSet(self.root)
            try:
                source.open()
                log.debug("watching %d folders in %s", source.folders, self.root)
                if is_gone:
                    changes.mark_incomplete()
                    is_gone = False
                self._begin()
                self._follow(source, changes)
            except RootGone:
                self._begin()
                if not is_gone:
                    changes.mark_incomplete()
                    self._deliver(changes.take())
                is_gone = True
                if not self._has_ended():
                    self._closed.wait(self._limits.return_s)

    def _follow(self, source: WatchSource, changes: ChangeSet) -> None:
        """Deliver changes until the watch ends. Raises `RootGone`."""
        first = last = time.monotonic()
        while True:
            source.wait(self._wait_s(changes, first, last))
            if self._has_ended():
                return
            had_changes, count = bool(changes), len(changes)
            source.read(changes)
            now = time.monotonic()
            if not had_changes:
                first = now
            if not had_changes or len(changes) != count:
                last = now
            if changes and self._wait_s(changes, first, last) == 0:
                self._deliver(changes.take())

    def _wait_s(self, changes: ChangeSet, first: float, last: float) -> float | None:
        """Return the seconds to wait for further changes before delivery."""
        if not changes:
            return None if self._listeners else self._limits.linger_s
        is_burst = len(changes) > MIN_BURST
        quiet_s = _BURST_QUIET_INTERVAL_S if is_burst else _QUIET_INTERVAL_S
        max_delay_s = _BURST_MAX_DELAY_S if is_burst else _MAX_DELAY_S
        return max(0.0, min(last + quiet_s, first + max_delay_s) - time.monotonic())

    def _has_ended(self) -> bool:
        with self._lock:
            is_idle = not self._listeners
            if is_idle and time.monotonic() >= self._idle_since + self._limits.linger_s:
                self._closed.set()
            return self._closed.is_set()

    def _begin(self) -> None:
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
            for listener in self._listeners:
                listener(None)

    def _deliver(self, batch: ChangeBatch) -> None:
        with self._lock:
            for listener in self._listeners:
                listener(batch)


def _end_all() -> None:
    """End all watches at exit: no thread may be running then."""
    atexit.unregister(_end_all)
    watches = list(_live_watches)
    for watch in watches:
        watch.close()
    for watch in watches:
        watch.join(_END_TIMEOUT_S)
