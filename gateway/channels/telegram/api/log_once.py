"""What is wrong with a bot's line, said in the log once and not with every try."""

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

# A trouble that lasts is said again after so long: who reads a log reads its end.
AGAIN_S = 3600.0
# Sentences may carry a number each; the oldest are forgotten.
_KNOWN = 16


class LogOnce:
    """`say` each failure, `over` when what failed works again.

    `of` is what is troubled; two things that fail for one `cause` are one trouble.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By cause: when it was last said, and what it is in the way of.
        self._logged: dict[str, tuple[float, set[str]]] = {}

    def say(self, of: str, cause: str, sentence: str | None = None) -> None:
        """`sentence` tells more than the cause."""
        now = self._clock()
        at, stopped = self._logged.pop(cause, (None, set()))
        if at is None or now - at >= AGAIN_S:
            _log.warning("telegram: %s", sentence or cause)
            at = now
        self._logged[cause] = (at, stopped | {of})
        while len(self._logged) > _KNOWN:
            del self._logged[next(iter(self._logged))]

    def over(self, of: str) -> None:
        """What lasts for something else stays known."""
        if not any(of in stopped for _, stopped in self._logged.values()):
            return
        remaining = {cause: (at, stopped - {of}) for cause, (at, stopped) in self._logged.items()}
        self._logged = {cause: entry for cause, entry in remaining.items() if entry[1]}
        _log.info("telegram: %s again", of)
