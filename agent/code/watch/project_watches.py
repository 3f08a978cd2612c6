"""The roots that a process watches, each once, whoever follows it."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.code.watch.changes import ChangeBatch, ChangeSet
from agent.code.watch.project_watch import MakeSource, ProjectWatch, open_source
from agent.code.watch.source import WatchLimits

log = logging.getLogger(__name__)


class ChangeSubscription:
    """What one follower of a root has not read yet, joined: one that is slow holds up nobody.

    Iterate over it for a `ChangeBatch` after another; it never ends by itself. Used in the event
    loop that it was made in.
    """

    def __init__(self, root: Path) -> None:
        self._pending = ChangeSet(root)
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._begun = asyncio.Event()

    async def wait_begun(self) -> None:
        """Until the watch has begun: what changes from then on is told."""
        await self._begun.wait()

    def take(self) -> ChangeBatch:
        """What has not been read yet, without waiting; it may be empty."""
        self._news.clear()
        return self._pending.take()

    async def __aiter__(self) -> AsyncIterator[ChangeBatch]:
        while True:
            await self._news.wait()
            yield self.take()

    def deliver(self, batch: ChangeBatch | None) -> None:
        """In any thread."""
        try:
            self._loop.call_soon_threadsafe(self._receive, batch)
        except RuntimeError:
            # Its loop is closed: nobody reads it any more.
            return

    def _receive(self, batch: ChangeBatch | None) -> None:
        if batch is None:
            self._begun.set()
            return
        self._pending.add_batch(batch)
        if self._pending:
            self._news.set()


class ProjectWatches:
    """All watches of a process; any thread may ask.

    For language servers (`workspace/didChangeWatchedFiles`) and whoever else must know::

        with watches.follow(root) as subscription:
            async for batch in subscription:
                for change in batch.changes:  # .path, .kind: created, changed or deleted
                    ...
                if not batch.is_complete:  # the kernel has dropped some, or the root was replaced
                    ...

    Paths that `.gitignore` leaves out and `.git` are not among them. Nobody may rely on hearing of
    each change: a watch can fail to begin, and so far as it does nothing is told.
    """

    def __init__(
        self, limits: WatchLimits | None = None, make_source: MakeSource = open_source
    ) -> None:
        self._limits = limits or WatchLimits()
        self._make_source = make_source
        self._lock = threading.Lock()
        self._watches: dict[Path, ProjectWatch] = {}

    @contextmanager
    def follow(self, root: Path) -> Iterator[ChangeSubscription]:
        """Watch a root, unless it is watched already; the walk over its folders runs in a thread,
        and changes are told once it has ended. `root` is absolute, without links."""
        subscription = ChangeSubscription(root)
        watch = self._listen(root, subscription)
        try:
            yield subscription
        finally:
            if watch is not None:
                watch.leave(subscription.deliver)

    def watched(self) -> dict[Path, int]:
        """The roots that are watched, and how many of their folders."""
        with self._lock:
            return {root: one.folders for root, one in self._watches.items() if one.is_open}

    def watch(self, root: Path) -> ProjectWatch | None:
        """The watch of a root, if there is one."""
        with self._lock:
            return self._watches.get(root)

    def close(self) -> None:
        """End all of them; their threads end at once, by themselves."""
        with self._lock:
            watches, self._watches = self._watches, {}
        for watch in watches.values():
            watch.close()

    def _listen(self, root: Path, subscription: ChangeSubscription) -> ProjectWatch | None:
        with self._lock:
            watch = self._watches.get(root)
            if watch is not None and watch.listen(subscription.deliver):
                return watch
            self._watches = {path: one for path, one in self._watches.items() if one.is_open}
            if not self._has_room():
                log.warning("%s is not watched: %d other folders are", root, self._limits.roots)
                subscription.deliver(None)
                return None
            watch = self._watches[root] = ProjectWatch(root, self._limits, self._make_source)
            if not watch.listen(subscription.deliver):
                # It could not begin.
                subscription.deliver(None)
            return watch

    def _has_room(self) -> bool:
        """Room for another root; one that nobody follows any more makes it."""
        if len(self._watches) < self._limits.roots:
            return True
        for path, watch in list(self._watches.items()):
            if watch.is_idle:
                watch.close()
                del self._watches[path]
                return True
        return False
