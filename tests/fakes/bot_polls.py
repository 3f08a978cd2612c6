"""getUpdates of the fake Bot API: long polling, where a second poll ends the first."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from tests.fakes.bot_methods import integer, structure
from tests.fakes.bot_text import Refusal
from tests.fakes.bot_updates import BATCH_LIMIT, UpdateQueue
from tests.fakes.bot_wire import describe
from tests.fakes.loopback import LoopbackServer


class LongPolls:
    """Polls of a server; `done` counts the answered polls, `first_at` is Unix time in seconds."""

    def __init__(self, updates: UpdateQueue, server: LoopbackServer) -> None:
        self.done = 0
        self.first_at: float | None = None
        self._updates = updates
        self._server = server
        self._allowed: list[str] | None = None
        self._ended: asyncio.Event | None = None

    @property
    def waiting(self) -> bool:
        """True while a poll is waiting."""
        return self._ended is not None

    def lets_through(self, kind: str) -> bool:
        """Return whether the bot has requested updates of this kind."""
        return not self._allowed or kind in self._allowed

    async def answer(self, params: Mapping[str, Any]) -> list[bytes]:
        """Return the updates of one poll. Raise `Refusal` when another poll ends it."""
        self.first_at = self.first_at or time.time()
        if self._ended is not None:
            self._ended.set()
        ended = self._ended = asyncio.Event()
        try:
            self._updates.confirm(integer(params, "offset") or 0)
            if "allowed_updates" in params:
                self._allowed = structure(params, "allowed_updates")
            self._server.changed()
            limit = integer(params, "limit") or BATCH_LIMIT
            return await self._await_updates(ended, limit, integer(params, "timeout") or 0)
        finally:
            if self._ended is ended:
                self._ended = None

    async def _await_updates(
        self, ended: asyncio.Event, limit: int, timeout_s: float
    ) -> list[bytes]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not self._updates.pending and not self._server.stopping:
            remaining_s = deadline - loop.time()
            if remaining_s <= 0:
                break
            await self._server.news(remaining_s)
            if ended.is_set():
                raise Refusal(409, describe(409))
        self.done += 1
        return self._updates.batch(limit)
