"""Watches of a process, one per root, shared by all subscribers."""

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
    """Unread changes of a root for one subscriber, merged.

    A slow reader does not delay others.

    Iterate over it for batches; the iteration never ends on its own. Use it in the event loop that
    created it.
    """

    def __init__(self, root: Path) -> None:
        self._pending = ChangeSet(root)
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._begun = asyncio.Event()

    async def wait_begun(self) -> None:
        """Wait until the watch has begun; all later changes are reported."""
        await self._begun.wait()

    def take(self) -> ChangeBatch:
        """Return the unread changes without waiting; may be empty."""
        self._news.clear()
        return self._pending.take()

    async def __aiter__(self) -> AsyncIterator[ChangeBatch]:
        while True:
            await self._news.wait()
            yield self.take()

    def deliver(self, batch: ChangeBatch | None) -> None:
        """Take a batch, or None once the watch has begun. Safe to call from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._receive, batch)
        except RuntimeError:
            # The loop is closed, so the changes have no reader.
            return

    def _receive(self, batch: ChangeBatch | None) -> None:
        if batch is None:
            self._begun.set()
            return
        self._pending.add_batch(batch)
        if self._pending:
            self._news.set()


class ProjectWatches:
    """Watches of a process. Thread-safe.

    For language servers (`workspace/didChangeWatchedFiles`) and other subscribers::

        with watches.follow(root) as subscription:
            async for batch in subscription:
                for change in batch.changes:  # .path, .kind: created, changed or deleted
                    ...
                if not batch.is_complete:  # the kernel has dropped some, or the root was replaced
                    ...

    Excludes `.git` and paths that `.gitignore` excludes. Changes may be missed: a watch that cannot
    begin reports nothing.
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
        """Watch a root while the context is open; `root` is absolute, without links.

        Subscribers share the watch of a root. Its folders are walked in a thread, and changes are
        reported once the walk has ended.
        """
        subscription = ChangeSubscription(root)
        watch = self._listen(root, subscription)
        try:
            yield subscription
        finally:
            if watch is not None:
                watch.leave(subscription.deliver)

    def watched(self) -> dict[Path, int]:
        """Return the watched roots with the number of their folders."""
        with self._lock:
            return {root: watch.folders for root, watch in self._watches.items() if watch.is_open}

    def watch(self, root: Path) -> ProjectWatch | None:
        """Return the watch of a root, or None."""
        with self._lock:
            return self._watches.get(root)

    def close(self) -> None:
        """End all watches without waiting for their threads."""
        with self._lock:
            watches, self._watches = self._watches, {}
        for watch in watches.values():
            watch.close()

    def _listen(self, root: Path, subscription: ChangeSubscription) -> ProjectWatch | None:
        with self._lock:
            watch = self._watches.get(root)
            if watch is not None and watch.listen(subscription.deliver):
                return watch
            self._watches = {path: watch for path, watch in self._watches.items() if watch.is_open}
            if not self._has_room():
                log.warning("%s is not watched: %d other folders are", root, self._limits.roots)
                subscription.deliver(None)
                return None
            watch = self._watches[root] = ProjectWatch(root, self._limits, self._make_source)
            if not watch.listen(subscription.deliver):
                # The watch could not begin.
                subscription.deliver(None)
            return watch

    def _has_room(self) -> bool:
        """Return whether there is room for another root, after closing an idle watch if
        necessary."""
        if len(self._watches) < self._limits.roots:
            return True
        for path, watch in list(self._watches.items()):
            if watch.is_idle:
                watch.close()
                del self._watches[path]
                return True
        return False
