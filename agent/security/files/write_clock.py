"""When something began, as the times of files tell it."""

import time

# File systems keep the time less exactly than the clock tells it.
CLOCK_S = 1


class WriteClock:
    """The wall clock when this was made; what changes later has a later time.

    The clock may be set back meanwhile. So `look` compares it with the monotonic one, and
    from then on counts from what the beginning is called now. What changed shortly before may count
    as well then, and nothing that changed afterwards is missed.
    """

    def __init__(self) -> None:
        self._began, self._steady = time.time(), time.monotonic()

    def look(self) -> None:
        self._began = min(self._began, time.time() - (time.monotonic() - self._steady))

    @property
    def time_s(self) -> float:
        """Unix time, a little earlier than the beginning, as of the last look."""
        return self._began - CLOCK_S
