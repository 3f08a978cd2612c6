"""Mapping of key presses to answers: a single key approves, a typed word does not."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence

from agent.approvals import QuestionOption
from gateway.cli.console.input.lone_letter import KEY_INTERVAL_S, QUIET_INTERVAL_S

_CTRL_C = "\x03"
_ENTER = ("\r", "\n")
_REFUSALS = ("\x1b", _CTRL_C, *_ENTER)
_REFUSAL = QuestionOption("n", "", "deny")


class KeyChoice:
    """Mapping of keys (`press`) to a choice; calls `decide` once for each `arm`.

    A refusal counts immediately; Escape, Ctrl-C and Enter refuse too. Any other choice counts if no
    other key follows within `KEY_INTERVAL_S`, or if Enter follows. `choices` belong to the open
    question. A screen that queues keys passes `after_keys`, which runs a call after the keys
    already read.
    """

    def __init__(
        self,
        decide: Callable[[QuestionOption], None],
        after_keys: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        self._decide = decide
        self._after_keys = after_keys
        self.choices: Sequence[QuestionOption] = ()
        self._armed_at = 0.0
        self._pending: QuestionOption | None = None
        self._pending_key = ""
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Reset for a new question or after other typing: earlier keys are not answers."""
        self.take_back()
        self._armed_at = time.monotonic() + QUIET_INTERVAL_S

    def hold(self) -> None:
        """Ignore keys until `arm` and its pause, because the question is not on the screen yet."""
        self.take_back()
        self._armed_at = math.inf

    def is_armed(self, at: float | None = None) -> bool:
        """Return whether the pause is over for a key read at this time (by default now)."""
        return (time.monotonic() if at is None else at) >= self._armed_at

    def press(self, key: str, at: float | None = None) -> bool:
        """Process a key; return False if it is not an answer but part of the text being written.

        `at` is the `time.monotonic` value at which the key was read, which may be long ago.
        """
        if self._pending_key and key in _ENTER:
            self._agree()
            return True
        if self._pending_key and key in (_CTRL_C, "\x1b"):
            self.take_back()
        choice = self._choice_of(key)
        if choice is None or self._pending_key or not self.is_armed(at):
            return False
        if choice.answer == "deny" and not choice.takes_words:
            self._decide(choice)
        else:
            self._pending, self._pending_key = choice, key
            self._timer = asyncio.get_running_loop().call_later(
                KEY_INTERVAL_S, self._after_keys, self._agree
            )
        return True

    def take_back(self) -> str:
        """Cancel a pending choice and return its letter, or an empty string."""
        if self._timer is not None:
            self._timer.cancel()
        key, self._pending_key = self._pending_key, ""
        self._pending, self._timer = None, None
        return key

    def _choice_of(self, key: str) -> QuestionOption | None:
        if key in _REFUSALS:
            return _REFUSAL
        return next((choice for choice in self.choices if key.lower() == choice.key), None)

    def _agree(self) -> None:
        choice = self._pending
        self.take_back()
        if choice is not None:
            self._decide(choice)
