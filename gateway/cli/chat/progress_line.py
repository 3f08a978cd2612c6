"""Progress line with the elapsed time of a single turn."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from agent.i18n import t
from gateway.cli.console.output.text import seconds

_EVERY_S = 1.0
_ERASE = "\r\x1b[K"


class ProgressLine:
    """Line on `err` that is redrawn every second.

    It is disabled if `err` is not a terminal or cannot erase. Callers must call `erase` before they
    print to `err`.
    """

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._is_shown = err.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._is_drawn = self._is_paused = False
        self._began_at = 0.0

    async def run(self) -> None:
        """Draw the line until cancelled."""
        self._began_at = time.monotonic()
        while self._is_shown:
            await asyncio.sleep(_EVERY_S)
            if not self._is_paused:
                took = seconds(int(time.monotonic() - self._began_at)).replace(".0", "")
                text = t("working {time} · Ctrl-C stops", time=took)
                self._err.write(f"{_ERASE}\x1b[2m{text}\x1b[0m")
                self._err.flush()
                self._is_drawn = True

    def erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._err.write(_ERASE)
            self._err.flush()

    def finish(self) -> None:
        """Remove the line, because the answer itself now shows the progress."""
        self.erase()
        self._is_paused = True

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Hide the line and pause the timer while a person is asked on the same terminal."""
        self.erase()
        self._is_paused = True
        asked_at = time.monotonic()
        try:
            yield
        finally:
            self._began_at += time.monotonic() - asked_at
            self._is_paused = False
