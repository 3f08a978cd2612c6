"""Budgets of access tokens: calls, frames, bytes and seconds, over all connections of a token.

They are charged before anything is parsed. An admin may do everything, so only the calls of an
admin are counted, which keeps a mistaken loop from the others.
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
    """So many at once, and so many a second from then on."""

    burst: float
    per_s: float


CALLS = RateLimit(300, 50)
FRAMES = RateLimit(1_000, 200)
BYTES = RateLimit(32 * 1024 * 1024, 4 * 1024 * 1024)
# Who may only look on has no long words, and no files.
READER_BYTES = RateLimit(1024 * 1024, 64 * 1024)
READER_REQUEST_LIMIT_BYTES = 64 * 1024
# Of work on calls, streams aside: one call at a time in the long run.
SECONDS = RateLimit(30, 1)
MAX_PARALLEL_CALLS = 4
_MAX_NAMES = 1_000


class BudgetExceeded(KoreError):
    """A token has used up what it may use for now."""

    code = "too-many-calls"


class BodyTooLarge(KoreError):
    """A request is longer than any of this token has to be."""

    code = "too-large"


class CallLimiter:
    """A bucket for each name; the names used longest ago leave."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, amount: float = 1) -> bool:
        """Take an amount out; False, and nothing is taken, where there is less."""
        has_enough = self._left(name) >= amount
        if has_enough:
            self.charge(name, amount)
        return has_enough

    def charge(self, name: str, amount: float) -> None:
        """Take an amount out, also where there is less: then it is owed."""
        self._buckets[name] = (self._left(name) - amount, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_NAMES:
            self._buckets.popitem(last=False)

    def is_empty(self, name: str) -> bool:
        return self._left(name) < 1

    def debt_s(self, name: str) -> float:
        """Return the seconds until nothing is owed any more."""
        return max(0.0, -self._left(name) / self._limit.per_s)

    def _left(self, name: str) -> float:
        left, at = self._buckets.get(name, (self._limit.burst, self._clock()))
        return min(self._limit.burst, left + (self._clock() - at) * self._limit.per_s)


class TokenBudgets:
    """The budgets of all tokens of a server."""

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
        """Count the body of a request, before it is read; one of unknown size (None) as a large
        one. Raises `BodyTooLarge`, `BudgetExceeded`."""
        if _is_admin(token):
            return
        # What is larger is read by nobody.
        size = REQUEST_LIMIT_BYTES if size is None else min(size, REQUEST_LIMIT_BYTES)
        if size > (limit := request_limit(token)):
            raise BodyTooLarge(
                t("a request of this token is limited to {size:,} bytes", size=limit)
            )
        if not self._bytes_of(token).take(token.identity, size):
            raise BudgetExceeded(t("too many bytes; wait a few seconds"))

    async def admit_frame(self, token: AccessToken, size: int) -> None:
        """Count a frame of a connection, and wait while too much is owed: nothing more is read from
        this connection meanwhile."""
        if _is_admin(token):
            return
        for limiter, amount in ((self._frames, 1), (self._bytes_of(token), size)):
            limiter.charge(token.identity, amount)
            await asyncio.sleep(limiter.debt_s(token.identity))

    @asynccontextmanager
    async def working(self, token: AccessToken) -> AsyncIterator[None]:
        """Count the seconds that the block lasts, which waits for others of the same token. Raises
        `BudgetExceeded`."""
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
    """Return the size in bytes of the longest request or frame."""
    return REQUEST_LIMIT_BYTES if token.allows("chat") else READER_REQUEST_LIMIT_BYTES


def _is_admin(token: AccessToken) -> bool:
    return token.allows("admin")
