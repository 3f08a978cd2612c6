"""A clock for deadlines: setting the system's time neither stretches nor shortens them."""

import time


class SteadyClock:
    """Unix time in seconds as it was when the process began, and from then on monotonic."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset_s
