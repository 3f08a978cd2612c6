"""A bucket that fills at a steady rate."""

import time


class TokenBucket:
    def __init__(self, rate, burst):
        if rate <= 0 or burst < 1:
            raise ValueError("rate must be positive, burst at least 1")
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._updated = time.monotonic()

    def allow(self, cost=1):
        """Whether it may happen now; if so its cost is taken."""
        self._refill()
        if cost > self._tokens:
            return False
        self._tokens -= cost
        return True

    def wait_s(self, cost=1):
        """Seconds until `allow` would say yes; 0 when it does now."""
        self._refill()
        if cost <= self._tokens:
            return 0.0
        return (cost - self._tokens) / self.rate

    def _refill(self):
        now = time.monotonic()
        self._tokens += (now - self._updated) * self.rate
        self._updated = now
