"""Log of connection problems that does not repeat a problem at every attempt."""

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

# Interval for repeating a persistent problem, so that it appears at the end of the log.
REPEAT_INTERVAL_S = 3600.0
# Limit of remembered causes, which may contain numbers; the oldest are dropped.
_MAX_PROBLEMS = 16


class LogOnce:
    """Log of failures: `say` each failure, `over` when the subject works again.

    `of` is the affected subject. Two subjects that fail for the same `cause` are one problem.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By cause: the time of the last log line, and the affected subjects.
        self._logged: dict[str, tuple[float, set[str]]] = {}

    def say(self, of: str, cause: str, sentence: str | None = None) -> None:
        """Log a failure; `sentence` describes it in more detail than `cause`."""
        now = self._clock()
        at, stopped = self._logged.pop(cause, (None, set()))
        if at is None or now - at >= REPEAT_INTERVAL_S:
            _log.warning("telegram: %s", sentence or cause)
            at = now
        self._logged[cause] = (at, stopped | {of})
        while len(self._logged) > _MAX_PROBLEMS:
            del self._logged[next(iter(self._logged))]

    def over(self, of: str) -> None:
        """Report that a subject works again; its causes remain recorded for other subjects."""
        if not any(of in stopped for _, stopped in self._logged.values()):
            return
        remaining = {cause: (at, stopped - {of}) for cause, (at, stopped) in self._logged.items()}
        self._logged = {cause: entry for cause, entry in remaining.items() if entry[1]}
        _log.info("telegram: %s again", of)
