"""At most so many within any stretch of time."""

import time
from collections import deque


class SlidingWindow:
    def __init__(self, limit, seconds):
        self.limit = limit
        self.seconds = seconds
        self._times = deque()

    def allow(self):
        """Whether it may happen now; if so it counts."""
        now = time.monotonic()
        while self._times and now - self._times[0] >= self.seconds:
            self._times.popleft()
        if len(self._times) >= self.limit:
            return False
        self._times.append(now)
        return True
