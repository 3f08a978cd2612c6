"""Which keys of which models are left alone for a while, and why."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agent.errors import KeyRefused, ProviderError, RateLimited, TimedOut, Unavailable
from agent.records import frozen

Cause = Literal["limit", "outage", "key"]

_FIRST_S: dict[Cause, float] = {"limit": 30, "outage": 30, "key": 600}
_LONGEST_S: dict[Cause, float] = {"limit": 600, "outage": 600, "key": 3600}
_EVERY_MODEL = ""
# However long a vendor asks for: whoever has mended the account need not wait for the end of it.
_PROBE_S = 300.0


@frozen
class KeyRef:
    """A key at an address; `secret` is the key itself."""

    address: str
    secret: str = field(default="", repr=False)


@dataclass(slots=True)
class _Rest:
    """`until` and `ends` are on the clock: from when on it is probed, and when it is over if the
    vendor means what it says. `probe` is there while one request finds out how it is."""

    cause: Cause
    reason: str
    until: float
    ends: float
    failures: int = 1
    probe: asyncio.Event | None = None


class Cooldowns:
    """Rests of (account, model), each as narrow as its cause.

    A rate limit or an outage rests that key for that model alone, a refused key rests for all of
    its models. When the time is over, or five minutes of a longer one that the vendor stated, one
    request probes and the others still stay away: its success ends the rest, a failure doubles it.
    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rests: dict[tuple[KeyRef, str], _Rest] = {}

    def left_s(self, account: KeyRef, model: str) -> float:
        """Seconds until it may be asked; 0 when it may be now. While a probe runs, at least one."""
        now = self._clock()
        return max((_left_s(rest, now) for rest in self._of(account, model)), default=0.0)

    def stated_s(self, account: KeyRef, model: str) -> float:
        """Seconds until the vendor has said that it answers again, if it did; see `left_s`."""
        now = self._clock()
        return max((rest.ends - now for rest in self._of(account, model)), default=0.0)

    def cause(self, account: KeyRef, model: str) -> tuple[Cause, str]:
        """Why it rests, in a word and in a sentence."""
        now = self._clock()
        rest = max(self._of(account, model), key=lambda one: _left_s(one, now))
        return rest.cause, rest.reason

    def begin(self, account: KeyRef, model: str) -> None:
        """It is asked now; if it has rested, this is the probe."""
        for rest in self._of(account, model):
            rest.probe = rest.probe or asyncio.Event()

    def mark_answered(self, account: KeyRef, model: str) -> None:
        """It works: every rest is over."""
        for place in ((account, model), (account, _EVERY_MODEL)):
            _release(self._rests.pop(place, None))

    def mark_failed(self, account: KeyRef, model: str, error: ProviderError) -> None:
        """Let it rest, if that is what the error asks for."""
        cause = _cause(error)
        if cause is None:
            return
        wide = isinstance(error, KeyRefused) and error.every_model
        place = (account, _EVERY_MODEL if wide else model)
        before = self._rests.get(place)
        # A request that was under way before the rest began does not make it longer.
        if before and before.cause == cause and before.until > self._clock():
            failures = before.failures
        else:
            failures = before.failures + 1 if before and before.cause == cause else 1
        rest_s = stated_s = min(_FIRST_S[cause] * 2.0 ** (failures - 1), _LONGEST_S[cause])
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            stated_s = error.retry_after_s
            rest_s = min(stated_s, _PROBE_S)
        now = self._clock()
        self._rests[place] = _Rest(cause, str(error), now + rest_s, now + stated_s, failures)
        _release(before)

    def release_probe(self, account: KeyRef, model: str) -> None:
        """Give up waiting for a probe: the next request becomes one."""
        for rest in self._of(account, model):
            _release(rest)
            rest.probe = None

    def expire_early(self, account: KeyRef, model: str) -> None:
        """End the wait now: the next request becomes the probe."""
        for rest in self._of(account, model):
            rest.until = min(rest.until, self._clock())

    async def wait_for_probes(self, account: KeyRef, model: str) -> bool:
        """Waits while a probe runs; False when none does."""
        probes = [rest.probe for rest in self._of(account, model) if rest.probe]
        for probe in probes:
            await probe.wait()
        return bool(probes)

    def _of(self, account: KeyRef, model: str) -> list[_Rest]:
        places = ((account, model), (account, _EVERY_MODEL))
        return [self._rests[place] for place in places if place in self._rests]


def _left_s(rest: _Rest, now: float) -> float:
    return max(rest.until - now, 1.0 if rest.probe else 0.0)


def _release(rest: _Rest | None) -> None:
    if rest and rest.probe:
        rest.probe.set()


def _cause(error: ProviderError) -> Cause | None:
    match error:
        case RateLimited():
            return "limit"
        case Unavailable() | TimedOut():
            return "outage"
        case KeyRefused():
            return "key"
        case _:
            return None
