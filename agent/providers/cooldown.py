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
# At most, however long a vendor asks for: the account may have been repaired since.
_PROBE_S = 300.0


@frozen
class KeyRef:
    """A key at an address; `secret` is the key itself."""

    address: str
    secret: str = field(default="", repr=False)


@dataclass(slots=True)
class _Cooldown:
    """`probe_at_s` is when one request may try again, `ends_at_s` when the vendor says that it is
    over, both on the clock. `probe` is set while that one request runs."""

    cause: Cause
    reason: str
    probe_at_s: float
    ends_at_s: float
    failures: int = 1
    probe: asyncio.Event | None = None


class Cooldowns:
    """Cooldowns of (account, model), each as narrow as its cause.

    A rate limit or an outage holds that key back for that model alone, a refused key for all of
    its models. When the time is over, or after five minutes of a longer one that the vendor
    stated, one request probes while the others still wait: its success ends the cooldown, a
    failure doubles it. `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cooldowns: dict[tuple[KeyRef, str], _Cooldown] = {}

    def remaining_s(self, account: KeyRef, model: str) -> float:
        """Seconds until it may be asked; 0 when it may be now. While a probe runs, at least one."""
        now = self._clock()
        return max(
            (_remaining_s(cooldown, now) for cooldown in self._of(account, model)), default=0.0
        )

    def stated_s(self, account: KeyRef, model: str) -> float:
        """Seconds until the vendor has said that it answers again, if it did; see `left_s`."""
        now = self._clock()
        return max((cooldown.ends_at_s - now for cooldown in self._of(account, model)), default=0.0)

    def cause(self, account: KeyRef, model: str) -> tuple[Cause, str]:
        """Why it is cooling down, in a word and in a sentence."""
        now = self._clock()
        cooldown = max(self._of(account, model), key=lambda one: _remaining_s(one, now))
        return cooldown.cause, cooldown.reason

    def begin(self, account: KeyRef, model: str) -> None:
        """A request starts; after a cooldown, it is the probe."""
        for cooldown in self._of(account, model):
            cooldown.probe = cooldown.probe or asyncio.Event()

    def mark_answered(self, account: KeyRef, model: str) -> None:
        """It works: every cooldown is over."""
        for place in ((account, model), (account, _EVERY_MODEL)):
            _release(self._cooldowns.pop(place, None))

    def mark_failed(self, account: KeyRef, model: str, error: ProviderError) -> None:
        """Start a cooldown, if the error calls for one."""
        cause = _cause(error)
        if cause is None:
            return
        wide = isinstance(error, KeyRefused) and error.every_model
        place = (account, _EVERY_MODEL if wide else model)
        before = self._cooldowns.get(place)
        # A request that was under way before the cooldown began does not make it longer.
        if before and before.cause == cause and before.probe_at_s > self._clock():
            failures = before.failures
        else:
            failures = before.failures + 1 if before and before.cause == cause else 1
        wait_s = stated_s = min(_FIRST_S[cause] * 2.0 ** (failures - 1), _LONGEST_S[cause])
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            stated_s = error.retry_after_s
            wait_s = min(stated_s, _PROBE_S)
        now = self._clock()
        self._cooldowns[place] = _Cooldown(
            cause, str(error), now + wait_s, now + stated_s, failures
        )
        _release(before)

    def release_probe(self, account: KeyRef, model: str) -> None:
        """Give up waiting for a probe: the next request becomes one."""
        for cooldown in self._of(account, model):
            _release(cooldown)
            cooldown.probe = None

    def expire_early(self, account: KeyRef, model: str) -> None:
        """End the wait now: the next request becomes the probe."""
        for cooldown in self._of(account, model):
            cooldown.probe_at_s = min(cooldown.probe_at_s, self._clock())

    async def wait_for_probes(self, account: KeyRef, model: str) -> bool:
        """Waits while a probe runs; False when none does."""
        probes = [cooldown.probe for cooldown in self._of(account, model) if cooldown.probe]
        for probe in probes:
            await probe.wait()
        return bool(probes)

    def _of(self, account: KeyRef, model: str) -> list[_Cooldown]:
        places = ((account, model), (account, _EVERY_MODEL))
        return [self._cooldowns[place] for place in places if place in self._cooldowns]


def _remaining_s(cooldown: _Cooldown, now: float) -> float:
    return max(cooldown.probe_at_s - now, 1.0 if cooldown.probe else 0.0)


def _release(cooldown: _Cooldown | None) -> None:
    if cooldown and cooldown.probe:
        cooldown.probe.set()


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
