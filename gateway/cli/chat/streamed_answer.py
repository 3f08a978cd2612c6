"""An answer on stdout while it is being written; a restarted turn prints nothing twice."""

from collections.abc import Callable
from typing import TextIO

from agent.text.visible import escape_invisible


class StreamedAnswer:
    """Tell it of every piece (`add`), of every new beginning (`begin`) and of the whole."""

    def __init__(self, out: TextIO, clear: Callable[[], None]) -> None:
        self._out = out
        self._clear = clear
        self._printed = self._current = ""

    def begin(self) -> None:
        """What comes now is the text anew: after a handover, or of the next model call."""
        self._current = ""

    def add(self, text: str) -> None:
        self._current = (self._current + text).lstrip()
        if self._printed.startswith(self._current):
            return
        if self._current.startswith(self._printed):
            self._write(self._current[len(self._printed) :])
        else:
            self._write(f"\n{self._current}")
        self._printed = self._current

    def close(self) -> None:
        """The text is complete; the next one begins on a line of its own."""
        if self._printed:
            self._write("\n")
        self._printed = self._current = ""

    def finish(self, text: str) -> None:
        """A part of the answer as it was delivered: print what is missing of it."""
        if self._printed.startswith(text) and len(self._printed) > len(text):
            self._printed = self._printed[len(text) :].lstrip("\n")
            return
        self.begin()
        self.add(text)
        self.close()

    def _write(self, text: str) -> None:
        self._clear()
        print(
            escape_invisible(text) if self._out.isatty() else text,
            end="",
            file=self._out,
            flush=True,
        )
