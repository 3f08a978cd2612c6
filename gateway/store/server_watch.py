"""How long a database server has answered, for a process that stands by."""

import time
from collections.abc import Callable

# Of a lease: an owner says something more often.
_PAUSE_SHARE = 0.4
_HAS_BOOTTIME = hasattr(time, "CLOCK_BOOTTIME")


class ServerWatch:
    """`note` each answer. While the server is away nobody can say anything, so only a process that
    has seen it answer for a whole lease knows that an owner is silent."""

    def __init__(self, lease_s: float, clock: Callable[[], float] | None = None) -> None:
        self._lease_s, self._clock = lease_s, clock or boot_clock
        self._since = self._last_at = 0.0

    def note(self) -> None:
        now = self._clock()
        if now - self._last_at > self._lease_s * _PAUSE_SHARE:
            self._since = now
        self._last_at = now

    @property
    def covers_lease(self) -> bool:
        """Whether the server has answered for a lease, without a long pause in between."""
        return self._last_at - self._since >= self._lease_s


def boot_clock() -> float:
    """Return seconds that also pass while a process or its machine is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOTTIME else time.monotonic()
