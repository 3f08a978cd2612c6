"""Telegram's sending limits, when a test wants them enforced.

https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """Token bucket: `rate` tokens per second, at most `burst` in the bucket."""

    rate: float
    burst: float
    tokens: float
    at: float

    def wait_s(self, now: float) -> float:
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / self.rate


@dataclass(slots=True)
class Limits:
    """Limits per second: 1 in a private chat, 30 in total; and 20 a minute in a group."""

    private_per_s: float = 1.0
    private_burst: float = 5.0
    group_per_min: float = 20.0
    overall_per_s: float = 30.0
    overall_burst: float = 30.0
    clock: Callable[[], float] = time.monotonic


class Gatekeeper:
    """Rate limiter that counts messages and returns the time that a sender must wait."""

    def __init__(self, limits: Limits) -> None:
        self.refused = 0
        self._limits = limits
        self._buckets: dict[int | None, Bucket] = {}

    def retry_after(self, chat_id: int) -> int | None:
        """Return whole seconds to wait, or None (and count the message) when it may pass."""
        now = self._limits.clock()
        buckets = [self._bucket(None, now), self._bucket(chat_id, now)]
        wait_s = max(bucket.wait_s(now) for bucket in buckets)
        if wait_s > 0:
            self.refused += 1
            return max(1, math.ceil(wait_s))
        for bucket in buckets:
            bucket.tokens -= 1
        return None

    def _bucket(self, chat_id: int | None, now: float) -> Bucket:
        if chat_id not in self._buckets:
            limits = self._limits
            if chat_id is None:
                rate, burst = limits.overall_per_s, limits.overall_burst
            elif chat_id > 0:
                rate, burst = limits.private_per_s, limits.private_burst
            else:
                rate, burst = limits.group_per_min / 60, limits.group_per_min
            self._buckets[chat_id] = Bucket(rate, burst, burst, now)
        return self._buckets[chat_id]
