"""Clock for deadlines that changes of the system's time neither stretch nor shorten."""

import time


class SteadyClock:
    """Unix time in seconds at the start of the process, continued by the monotonic clock."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset_s
