"""Limit on concurrent transactions of a process, to reduce serialization conflicts.

PostgreSQL tracks the reads of a serializable transaction by index page. The indexes of waiting and
running work have few pages, so transactions of different chats often seem to read each other's
writes, and one of them has to run again.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_SHRINK, _GROW = 0.5, 0.1


class ConflictLimiter:
    """Limiter for at most `max_count` concurrent transactions.

    The limit is halved after each conflict and grows slowly after each success (additive increase,
    multiplicative decrease). A transaction is no longer counted after `long_s`, so that others do
    not wait for a search or a backup.
    """

    def __init__(self, max_count: int, long_s: float = 0.1) -> None:
        self._max_count, self._long_s = max_count, long_s
        self._limit = float(max_count)
        self._numbers = count()
        # Start time of each running transaction.
        self._began: dict[int, float] = {}
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        return int(self._limit)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Enter once a slot is free; wait while the limit is reached."""
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
            self._limit = min(self._max_count, self._limit + _GROW / self._limit)

    def note_conflict(self) -> None:
        with self._changed:
            self._limit = max(1.0, self._limit * _SHRINK)

    def _wait_s(self) -> float:
        """Return the seconds until a transaction is no longer counted; 0 if a slot is free."""
        now = time.monotonic()
        ends = [end for began in self._began.values() if (end := began + self._long_s) > now]
        return min(ends) - now if len(ends) >= self.limit else 0.0
