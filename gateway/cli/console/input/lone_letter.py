"""Letters that are an answer on their own, and their timing."""

import asyncio
import time
from collections.abc import Callable, Collection

# Text that was typed for another purpose must not approve anything: keys count after this pause.
QUIET_INTERVAL_S = 0.4
# "yesterday" begins with the key for yes: a key counts only if no other key follows in time.
KEY_INTERVAL_S = 0.3


class LoneLetter:
    """Recognizer of a single letter in an empty input line.

    It counts if no other key follows within `KEY_INTERVAL_S`; then `decide` is called. Letters that
    arrive within a pause after `offer` were meant for something else.
    """

    def __init__(self, decide: Callable[[], None]) -> None:
        self._decide = decide
        self._letters: Collection[str] = ()
        self._armed_at = 0.0
        self._text = ""
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, letters: Collection[str], text: str = "") -> None:
        """Recognize these letters from now on; `text` is the line so far."""
        self._cancel()
        self._letters, self._text = letters, text
        self._armed_at = time.monotonic() + QUIET_INTERVAL_S

    def note(self, text: str) -> None:
        """Process a change of the input line."""
        self._cancel()
        was_empty, self._text = not self._text, text
        if was_empty and text.casefold() in self._letters and time.monotonic() >= self._armed_at:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(KEY_INTERVAL_S, self._decide)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
