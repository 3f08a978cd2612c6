"""Start time for comparison with modification times of files."""

import time

# File systems store times less precisely than the clock shows them.
CLOCK_S = 1


class WriteClock:
    """Start time of a period; files that change later have a later modification time.

    The clock may be set back during the period. `look` therefore compares it with the monotonic
    clock and moves the start time back as needed. Files changed shortly before the start may then
    count too, but no later change is missed.
    """

    def __init__(self) -> None:
        self._began, self._steady = time.time(), time.monotonic()

    def look(self) -> None:
        self._began = min(self._began, time.time() - (time.monotonic() - self._steady))

    @property
    def time_s(self) -> float:
        """Unix time slightly before the start, as of the last `look`."""
        return self._began - CLOCK_S
