"""Events for file changes in a project during a turn."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from agent.code.watch.change_events import ChangeReporter, WorkClock
from agent.code.watch.changes import ChangeBatch
from agent.code.watch.project_watches import ChangeSubscription, ProjectWatches
from agent.events import FileChanged
from agent.tools.file_views import FileViews
from agent.tools.traits import ToolTraits

Emit = Callable[[FileChanged], Awaitable[None]]


class TurnChanges:
    """Reporter for file changes in the project of a turn.

    Use `async with changes.follow()` around the work of the turn. `working` marks the run of a call
    that may change files; filter paths that the call itself reports with `unreported`.
    """

    def __init__(
        self, watches: ProjectWatches, root: Path, views: FileViews, session: str, emit: Emit
    ) -> None:
        self._watches, self._root, self._emit = watches, root, emit
        self._reporter = ChangeReporter(views, session)
        self._clock = WorkClock()

    @contextmanager
    def working(self, tool: ToolTraits) -> Iterator[None]:
        self._clock.begin(tool)
        try:
            yield
        finally:
            self._clock.end(tool)

    async def unreported(self, paths: Iterable[str]) -> list[str]:
        """Return the paths whose change has not been reported as an event yet."""
        return await asyncio.to_thread(self._unreported, list(paths))

    def _unreported(self, paths: list[str]) -> list[str]:
        return [path for path in paths if self._reporter.is_new(str(self._root / path))]

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        root = await asyncio.to_thread(self._root.resolve)
        with self._watches.follow(root) as subscription:
            task = asyncio.create_task(
                self._report_batches(subscription), name=f"changes in {root}"
            )
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()
            # Changes since the last batch.
            await self._report(subscription.take())

    async def _report_batches(self, subscription: ChangeSubscription) -> None:
        async for batch in subscription:
            await self._report(batch)

    async def _report(self, batch: ChangeBatch) -> None:
        if not batch.changes and batch.is_complete:
            return
        author = self._clock.author()
        for event in await asyncio.to_thread(self._reporter.describe, batch, author):
            await self._emit(event)
