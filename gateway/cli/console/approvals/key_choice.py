"""Which answer the keys at a question come to: a key alone says yes, a word says nothing."""

import asyncio
import time
from collections.abc import Callable

from agent.security.policy.base import Answer

_CTRL_C = "\x03"
_ENTER = ("\r", "\n")
_REFUSALS = ("n", "N", "\x1b", _CTRL_C, *_ENTER)
# What was typed for another purpose must not approve anything: keys count after this pause.
PAUSE_S = 0.4
# "why" begins with no yes, but "yesterday" does: only a letter that nothing follows is one.
ALONE_S = 0.3


def answer_for(key: str) -> Answer | None:
    """What a key means; None when it means nothing. Escape, Ctrl-C and Enter deny."""
    if key in ("y", "Y"):
        return "once"
    if key in ("s", "S"):
        return "session"
    if key in ("a", "A"):
        return "always"
    return "deny" if key in _REFUSALS else None


class KeyChoice:
    """Feed it keys with `press`; `decide` is called with the answer, once for each `arm`.

    A refusal counts at once. Consent counts when no other key comes within `ALONE_S`, or when
    Enter follows it.
    """

    def __init__(self, decide: Callable[[Answer], None]) -> None:
        self._decide = decide
        self._armed_at = 0.0
        self._pending_key = ""
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Reset on a new question or other typing: keys typed so far are no answer."""
        self.take_back()
        self._armed_at = time.monotonic() + PAUSE_S

    def is_armed(self) -> bool:
        """Whether the pause is over: a key counts now."""
        return time.monotonic() >= self._armed_at

    def press(self, key: str) -> bool:
        """Take a key; False when it is no answer and belongs to what is being written."""
        if self._pending_key and key in _ENTER:
            self._agree()
            return True
        if self._pending_key and key in (_CTRL_C, "\x1b"):
            self.take_back()
        answer = answer_for(key)
        if answer is None or self._pending_key or not self.is_armed():
            return False
        if answer == "deny":
            self._decide(answer)
        else:
            self._pending_key = key
            self._timer = asyncio.get_running_loop().call_later(ALONE_S, self._agree)
        return True

    def take_back(self) -> str:
        """The letter of a consent that has not counted yet, and now never will; else nothing."""
        if self._timer is not None:
            self._timer.cancel()
        key, self._pending_key, self._timer = self._pending_key, "", None
        return key

    def _agree(self) -> None:
        answer = answer_for(self.take_back())
        if answer is not None:
            self._decide(answer)
