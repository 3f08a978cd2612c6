"""Selection of the events of a conversation that notify a person who is looking elsewhere."""

import time
from collections.abc import Callable
from typing import Literal

from agent import events
from agent.i18n import mark_for_translation
from gateway.core.records import SessionEvent

Reason = Literal["question", "ended"]
SENTENCES: dict[Reason, str] = {
    "question": mark_for_translation("Kore asks something"),
    "ended": mark_for_translation("Kore has finished"),
}


class Attention:
    """Selector of the events to report: questions, and ends of long turns.

    A turn is long after `after_s` seconds, counted from its start or its last answered question;
    None turns all notifications off. `clock` returns seconds.
    """

    def __init__(self, after_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._after_s = after_s
        self._clock = clock
        self._began_at: float | None = None

    def take(self, event: SessionEvent) -> Reason | None:
        """Return the reason for a notification, or None."""
        if self._after_s is None:
            return None
        match event:
            case events.SessionStart() | events.ApprovalAnswered():
                self._began_at = self._clock()
            case events.ApprovalAsked():
                return "question"
            case events.Done(result):
                began_at, self._began_at = self._began_at, None
                is_long = began_at is not None and self._clock() - began_at >= self._after_s
                # A person who stops a turn is present.
                return "ended" if is_long and result.stopped != "cancelled" else None
        return None
