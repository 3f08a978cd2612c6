"""Isolation: turns that may have ended the process go on one at a time, before anything else."""

import asyncio
from collections import deque
from collections.abc import Iterable


class Isolation:
    """`begin` with the lanes of such turns; all lanes `enter` before they claim.

    A lane `leave`s when its turn has made a step, rests or is over: a process that ends before that
    was ended by the turn that was alone at work.
    """

    def __init__(self) -> None:
        self._lanes: deque[str] = deque()
        self._changed = asyncio.Event()

    def begin(self, lanes: Iterable[str]) -> None:
        self._lanes.extend(lanes)

    async def enter(self, lane: str) -> None:
        """Returns when it is the lane's turn, or no isolation is needed any more."""
        while self._lanes and self._lanes[0] != lane:
            await self._changed.wait()

    def is_first(self, lane: str) -> bool:
        """Whether it runs alone now."""
        return bool(self._lanes) and self._lanes[0] == lane

    def leave(self, lane: str) -> None:
        if self._lanes and self._lanes[0] == lane:
            self._lanes.popleft()
            self._tell()

    def end(self) -> None:
        """Nothing goes on alone any more: the process stops."""
        self._lanes.clear()
        self._tell()

    def _tell(self) -> None:
        news, self._changed = self._changed, asyncio.Event()
        news.set()
