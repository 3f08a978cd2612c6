"""Budgets of access tokens: calls, frames, bytes and seconds, over all connections of a token.

They are charged before anything is parsed. An admin may do everything, so only the calls of an
admin are counted, which protects the others from an accidental loop.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.control.protocol import REQUEST_LIMIT_BYTES
from gateway.server.tokens import AccessToken


@frozen
class RateLimit:
    """Rate limit: `burst` at once, then `per_s` per second."""

    burst: float
    per_s: float


CALLS = RateLimit(300, 50)
FRAMES = RateLimit(1_000, 200)
BYTES = RateLimit(32 * 1024 * 1024, 4 * 1024 * 1024)
# A token with only read access sends neither long texts nor files.
READER_BYTES = RateLimit(1024 * 1024, 64 * 1024)
READER_REQUEST_LIMIT_BYTES = 64 * 1024
# Seconds of work on calls, excluding streams: on average, one call at a time.
SECONDS = RateLimit(30, 1)
MAX_PARALLEL_CALLS = 4
_MAX_NAMES = 1_000


class BudgetExceeded(KoreError):
    """Error for a token that has used up its current budget."""

    code = "too-many-calls"


class BodyTooLarge(KoreError):
    """Error for a request over the size limit of its token."""

    code = "too-large"


class CallLimiter:
    """Token bucket for each name; the least recently used names are dropped."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, amount: float = 1) -> bool:
        """Take `amount` if it is available, else take nothing and return False."""
        has_enough = self._left(name) >= amount
        if has_enough:
            self.charge(name, amount)
        return has_enough

    def charge(self, name: str, amount: float) -> None:
        """Take `amount` even if less is available; the difference becomes a debt."""
        self._buckets[name] = (self._left(name) - amount, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_NAMES:
            self._buckets.popitem(last=False)

    def is_empty(self, name: str) -> bool:
        return self._left(name) < 1

    def debt_s(self, name: str) -> float:
        """Return the seconds until the debt is paid."""
        return max(0.0, -self._left(name) / self._limit.per_s)

    def _left(self, name: str) -> float:
        left, at = self._buckets.get(name, (self._limit.burst, self._clock()))
        return min(self._limit.burst, left + (self._clock() - at) * self._limit.per_s)


class TokenBudgets:
    """Budgets of all tokens of a server."""

    def __init__(self) -> None:
        self._calls = CallLimiter(CALLS)
        self._frames = CallLimiter(FRAMES)
        self._bytes = CallLimiter(BYTES)
        self._reader_bytes = CallLimiter(READER_BYTES)
        self._seconds = CallLimiter(SECONDS)
        self._parallel: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def check_call(self, token: AccessToken) -> None:
        """Count a call. Raises `BudgetExceeded`."""
        if not self._calls.take(token.identity):
            raise BudgetExceeded(t("too many calls; wait a second"))

    def check_body(self, token: AccessToken, size: int | None) -> None:
        """Charge the body of a request before it is read.

        An unknown size (None) counts as the maximum. Raises `BodyTooLarge` and `BudgetExceeded`.
        """
        if _is_admin(token):
            return
        # A larger body is rejected before it is read in full.
        size = REQUEST_LIMIT_BYTES if size is None else min(size, REQUEST_LIMIT_BYTES)
        if size > (limit := request_limit(token)):
            raise BodyTooLarge(
                t("a request of this token is limited to {size:,} bytes", size=limit)
            )
        if not self._bytes_of(token).take(token.identity, size):
            raise BudgetExceeded(t("too many bytes; wait a few seconds"))

    async def admit_frame(self, token: AccessToken, size: int) -> None:
        """Charge a frame of a connection and wait until the debt is paid.

        Nothing more is read from this connection in the meantime.
        """
        if _is_admin(token):
            return
        for limiter, amount in ((self._frames, 1), (self._bytes_of(token), size)):
            limiter.charge(token.identity, amount)
            await asyncio.sleep(limiter.debt_s(token.identity))

    @asynccontextmanager
    async def working(self, token: AccessToken) -> AsyncIterator[None]:
        """Charge the duration of the context, which first waits for other calls of the same token.

        Raises `BudgetExceeded`.
        """
        if _is_admin(token):
            yield
            return
        name = token.identity
        semaphore = self._parallel.setdefault(name, asyncio.Semaphore(MAX_PARALLEL_CALLS))
        async with semaphore:
            if self._seconds.debt_s(name):
                raise BudgetExceeded(t("the calls of this token take too long; wait a few seconds"))
            began_at = time.monotonic()
            try:
                yield
            finally:
                self._seconds.charge(name, time.monotonic() - began_at)

    def _bytes_of(self, token: AccessToken) -> CallLimiter:
        return self._bytes if token.allows("chat") else self._reader_bytes


def request_limit(token: AccessToken) -> int:
    """Return the maximum size of a request or frame in bytes."""
    return REQUEST_LIMIT_BYTES if token.allows("chat") else READER_REQUEST_LIMIT_BYTES


def _is_admin(token: AccessToken) -> bool:
    return token.allows("admin")
