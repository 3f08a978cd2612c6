"""Isolation of turns that may have ended the process, which continue in groups."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress

NEWCOMERS_WAIT_S = 5.0


class Isolation:
    """Isolation groups for suspect turns.

    Call `begin` with the lanes of these turns in groups; every lane calls `enter` before it claims.
    A lane calls `leave` when its turn has made a step, is suspended or has ended. If the process
    ends before that, the cause is a turn of the current group, or a turn that began after
    `newcomers_wait_s`.
    """

    def __init__(self, newcomers_wait_s: float = NEWCOMERS_WAIT_S) -> None:
        self._newcomers_wait_s = newcomers_wait_s
        self._groups: deque[set[str]] = deque()
        self._newcomers_at = 0.0
        self._changed = asyncio.Event()

    def begin(self, groups: Iterable[Collection[str]]) -> None:
        self._groups.extend(set(group) for group in groups)
        self._newcomers_at = asyncio.get_running_loop().time() + self._newcomers_wait_s

    async def enter(self, lane: str) -> None:
        """Return when the lane's group is the current one.

        Lanes without a group wait until all groups are finished or `newcomers_wait_s` has passed.
        """
        while self._groups and lane not in self._groups[0]:
            is_newcomer = not any(lane in group for group in self._groups)
            wait_until = self._newcomers_at if is_newcomer else None
            if is_newcomer and asyncio.get_running_loop().time() >= self._newcomers_at:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wait_until):
                    await self._changed.wait()

    def is_at_work(self, lane: str) -> bool:
        """Return whether the lane belongs to the current group."""
        return bool(self._groups) and lane in self._groups[0]

    def leave(self, lane: str) -> None:
        if self.is_at_work(lane):
            self._groups[0].remove(lane)
            if not self._groups[0]:
                self._groups.popleft()
                self._wake_waiting()

    def end(self) -> None:
        """Let every lane continue, because the process stops."""
        self._groups.clear()
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        news, self._changed = self._changed, asyncio.Event()
        news.set()
