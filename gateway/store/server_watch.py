"""Watch of a standby process on the database server."""

import time
from collections.abc import Callable

# Share of a lease; an owner sends heartbeats more often than that.
_PAUSE_SHARE = 0.4
_HAS_BOOTTIME = hasattr(time, "CLOCK_BOOTTIME")


class ServerWatch:
    """Record of the server's answers; call `note` for each.

    No owner can renew its lease while the server is away, so only a process that has seen the
    server answer for a whole lease knows that the owner is silent.
    """

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
        """True if the server has answered for a whole lease, without a long pause."""
        return self._last_at - self._since >= self._lease_s


def boot_clock() -> float:
    """Return seconds that also pass while a process or its machine is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOTTIME else time.monotonic()
