"""Feed of project changes between turns, for screens that show the conversation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.agent import Agent
from gateway.core.event_hub import EventHub

if TYPE_CHECKING:
    from agent.code.watch.project_watches import ChangeSubscription


class ProjectFeed:
    """Publisher of project changes; running turns report changes themselves."""

    def __init__(self, agent: Agent, events: EventHub) -> None:
        self._agent = agent
        self._events = events

    @asynccontextmanager
    async def follow(self, lane: str, folder: str | None) -> AsyncIterator[None]:
        """Publish the folder's file changes on the lane while the context is open.

        Nothing is published without a folder, for the workspace, or for a missing folder.
        """
        root = await asyncio.to_thread(self._root, folder)
        if root is None:
            yield
            return
        with self._agent.watches.follow(root) as subscription:
            task = asyncio.create_task(
                self._publish_changes(lane, subscription), name=f"changes in {root}"
            )
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.result()

    def _root(self, folder: str | None) -> Path | None:
        if folder is None or not self._agent.settings.watch:
            return None
        root = Path(folder).resolve()
        return root if root.is_dir() and root != self._agent.workspace.folder else None

    async def _publish_changes(self, lane: str, subscription: "ChangeSubscription") -> None:
        from agent.code.watch.change_events import ChangeReporter

        reporter = ChangeReporter(self._agent.views)
        async for batch in subscription:
            if self._events.has_turn(lane):
                continue
            for event in await asyncio.to_thread(reporter.describe, batch):
                self._events.publish(lane, event)
