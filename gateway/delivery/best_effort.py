"""Best-effort work after the delivery of an answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

# Limit over all chats; further work is skipped.
AT_ONCE = 32
LASTS_S = 20.0


class BestEffortTasks:
    """Runner for cosmetic work, limited in number and duration; errors are logged."""

    def __init__(self, *, lasts_s: float = LASTS_S) -> None:
        self._lasts_s = lasts_s
        self._pieces = 0

    def begin(self, group: asyncio.TaskGroup, work: Callable[[], Awaitable[None]]) -> None:
        """Start the work as a task of `group`, unless too many are running."""
        if self._pieces < AT_ONCE:
            self._pieces += 1
            group.create_task(
                self._run_for_a_while(work), name="after an answer"
            ).add_done_callback(self._end)

    async def _run_for_a_while(self, work: Callable[[], Awaitable[None]]) -> None:
        piece = asyncio.ensure_future(work())
        try:
            await asyncio.wait({piece}, timeout=self._lasts_s)
        finally:
            piece.cancel()
            await asyncio.wait({piece})
        if not piece.cancelled() and (bug := piece.exception()) is not None:
            log.error("background work after an answer failed", exc_info=bug)

    def _end(self, _: "asyncio.Task[None]") -> None:
        self._pieces -= 1
