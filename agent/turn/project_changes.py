"""Which files of a project change while a turn works in it, as events of the turn."""

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
    """`async with changes.follow()` around the turn's work. Calls that change something are
    announced by `working`; what they say themselves of files is asked of `unreported` first."""

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
        """Those whose change was not told before it was known whose it is."""
        return await asyncio.to_thread(self._unreported, list(paths))

    def _unreported(self, paths: list[str]) -> list[str]:
        return [path for path in paths if self._reporter.is_new(str(self._root / path))]

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        root = await asyncio.to_thread(self._root.resolve)
        with self._watches.follow(root) as subscription:
            task = asyncio.create_task(self._tell(subscription), name=f"changes in {root}")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()
            # What came in the last moment.
            await self._report(subscription.take())

    async def _tell(self, subscription: ChangeSubscription) -> None:
        async for batch in subscription:
            await self._report(batch)

    async def _report(self, batch: ChangeBatch) -> None:
        if not batch.changes and batch.is_complete:
            return
        author = self._clock.author()
        for event in await asyncio.to_thread(self._reporter.describe, batch, author):
            await self._emit(event)
