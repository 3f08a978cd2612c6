"""Selection of the events of a session that are worth a notification."""

import time
from collections.abc import Callable

from agent import events
from gateway.core.records import SessionEvent


class AttentionRule:
    """Decides for each event of a session: a question, or the end of a long turn.

    A turn is long from `after_s` seconds on, counted from its start or its last answered question;
    None: nothing is worth a notification. `clock` returns seconds.
    """

    def __init__(self, after_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._after_s = after_s
        self._clock = clock
        self._began_at: dict[str, float] = {}
        # Open questions are published again for screens that connected later.
        self._questions: set[str] = set()

    def take(self, session: str, event: SessionEvent) -> events.AttentionNeeded | None:
        if self._after_s is None:
            return None
        match event:
            case events.SessionStart():
                self._began_at[session] = self._clock()
            case events.ApprovalAnswered(nonce):
                self._questions.discard(nonce)
                if session in self._began_at:
                    self._began_at[session] = self._clock()
            case events.ApprovalAsked(nonce):
                if nonce not in self._questions:
                    self._questions.add(nonce)
                    return events.AttentionNeeded("question")
            case events.Done(result):
                began_at = self._began_at.pop(session, None)
                is_long = began_at is not None and self._clock() - began_at >= self._after_s
                # A person who stops a turn is present.
                if is_long and result.stopped != "cancelled":
                    return events.AttentionNeeded("ended")
        return None
