"""How many transactions of a process run at once, so that few of them lose against each other.

PostgreSQL notes what a serializable transaction has read by the page of an index. The indexes of
what waits and of what runs have few pages, so transactions of different chats often look as if they
had read what the other writes, and one of them has to run again.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_SHRINK, _GROW = 0.5, 0.1


class ConflictLimiter:
    """At most `most`: half as many after each that has lost, slowly more after those that have not
    (additive increase, multiplicative decrease). One that takes longer than `long_s` counts no
    more: nothing waits behind a search or a backup."""

    def __init__(self, most: int, long_s: float = 0.1) -> None:
        self._most, self._long_s = most, long_s
        self._limit = float(most)
        self._numbers = count()
        # When each that runs has begun.
        self._began: dict[int, float] = {}
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        return int(self._limit)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Waits while as many run as may."""
        with self._changed:
            while (wait_s := self._wait_s()) > 0:
                self._changed.wait(wait_s)
            number = next(self._numbers)
            self._began[number] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._began[number]
                self._changed.notify()

    def note_success(self) -> None:
        with self._changed:
            self._limit = min(self._most, self._limit + _GROW / self._limit)

    def note_conflict(self) -> None:
        with self._changed:
            self._limit = max(1.0, self._limit * _SHRINK)

    def _wait_s(self) -> float:
        """Until the next of those that count is done or counts no more; 0 where there is room."""
        now = time.monotonic()
        ends = [end for began in self._began.values() if (end := began + self._long_s) > now]
        return min(ends) - now if len(ends) >= self.limit else 0.0
