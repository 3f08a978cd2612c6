"""One limiter per key."""

import time


class Limits:
    """`make` makes the limiter of a new key; one that is idle for `idle_s` is forgotten."""

    def __init__(self, make, idle_s=600):
        self._make = make
        self._idle_s = idle_s
        self._limiters = {}

    def allow(self, key):
        now = time.monotonic()
        self._forget(now)
        limiter, _ = self._limiters.get(key) or (self._make(), now)
        self._limiters[key] = (limiter, now)
        return limiter.allow()

    def __len__(self):
        return len(self._limiters)

    def _forget(self, now):
        idle = [key for key, (_, used) in self._limiters.items() if now - used > self._idle_s]
        for key in idle:
            del self._limiters[key]
