"""Cooldowns of API keys and models after errors."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agent.errors import KeyRefused, ProviderError, RateLimited, TimedOut, Unavailable
from agent.records import frozen

Cause = Literal["limit", "outage", "key"]

_FIRST_COOLDOWN_S: dict[Cause, float] = {"limit": 30, "outage": 30, "key": 600}
_MAX_COOLDOWN_S: dict[Cause, float] = {"limit": 600, "outage": 600, "key": 3600}
_EVERY_MODEL = ""
# Maximum wait before a probe, even if the vendor asks for more: the account may work again.
_MAX_PROBE_INTERVAL_S = 300.0


@frozen
class KeyRef:
    """API key at an address; `secret` is the key itself."""

    address: str
    secret: str = field(default="", repr=False)


@dataclass(slots=True)
class _Cooldown:
    """Cooldown of a key, or of a model with a key.

    `probe_at_s` is the clock time at which one request may try again, `ends_at_s` the end stated by
    the vendor. `probe` is set while the probing request runs.
    """

    cause: Cause
    reason: str
    probe_at_s: float
    ends_at_s: float
    failures: int = 1
    probe: asyncio.Event | None = None


class Cooldowns:
    """Cooldowns by account and model, each limited to its cause.

    A rate limit or an outage blocks a key for one model, a refused key usually for all of its
    models. After the cooldown, or after five minutes of a longer one stated by the vendor, one
    request probes while the others still wait: success ends the cooldown, failure doubles it.
    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cooldowns: dict[tuple[KeyRef, str], _Cooldown] = {}

    def remaining_s(self, account: KeyRef, model: str) -> float:
        """Return the seconds until the model may be asked, or 0; at least 1 while a probe runs."""
        now = self._clock()
        return max(
            (_remaining_s(cooldown, now) for cooldown in self._of(account, model)), default=0.0
        )

    def stated_s(self, account: KeyRef, model: str) -> float:
        """Return the seconds until the end stated by the vendor, if any; see `remaining_s`."""
        now = self._clock()
        return max((cooldown.ends_at_s - now for cooldown in self._of(account, model)), default=0.0)

    def cause(self, account: KeyRef, model: str) -> tuple[Cause, str]:
        """Return the cause of the cooldown and its reason as a sentence."""
        now = self._clock()
        cooldown = max(self._of(account, model), key=lambda item: _remaining_s(item, now))
        return cooldown.cause, cooldown.reason

    def begin(self, account: KeyRef, model: str) -> None:
        """Record the start of a request; after a cooldown, this request is the probe."""
        for cooldown in self._of(account, model):
            cooldown.probe = cooldown.probe or asyncio.Event()

    def mark_answered(self, account: KeyRef, model: str) -> None:
        """End every cooldown after an answer."""
        for place in ((account, model), (account, _EVERY_MODEL)):
            _release(self._cooldowns.pop(place, None))

    def mark_failed(self, account: KeyRef, model: str, error: ProviderError) -> None:
        """Start a cooldown if the error calls for one."""
        cause = _cause(error)
        if cause is None:
            return
        wide = isinstance(error, KeyRefused) and error.every_model
        place = (account, _EVERY_MODEL if wide else model)
        before = self._cooldowns.get(place)
        # A request that started before the cooldown does not extend it.
        if before and before.cause == cause and before.probe_at_s > self._clock():
            failures = before.failures
        else:
            failures = before.failures + 1 if before and before.cause == cause else 1
        wait_s = stated_s = min(
            _FIRST_COOLDOWN_S[cause] * 2.0 ** (failures - 1), _MAX_COOLDOWN_S[cause]
        )
        if isinstance(error, RateLimited) and error.retry_after_s is not None:
            stated_s = error.retry_after_s
            wait_s = min(stated_s, _MAX_PROBE_INTERVAL_S)
        now = self._clock()
        self._cooldowns[place] = _Cooldown(
            cause, str(error), now + wait_s, now + stated_s, failures
        )
        _release(before)

    def release_probe(self, account: KeyRef, model: str) -> None:
        """Release the requests that wait for a probe; the next request becomes the probe."""
        for cooldown in self._of(account, model):
            _release(cooldown)
            cooldown.probe = None

    def expire_early(self, account: KeyRef, model: str) -> None:
        """End the wait now: the next request becomes the probe."""
        for cooldown in self._of(account, model):
            cooldown.probe_at_s = min(cooldown.probe_at_s, self._clock())

    async def wait_for_probes(self, account: KeyRef, model: str) -> bool:
        """Wait while a probe runs; return False if none is running."""
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
