"""Streamed answer on stdout; a restarted turn prints nothing twice."""

from collections.abc import Callable
from typing import TextIO

from agent.text.visible import escape_invisible


class StreamedAnswer:
    """Prints an answer piece by piece.

    Call `add` for each piece, `begin` for each restart, and `finish` with the whole text.
    """

    def __init__(self, out: TextIO, clear: Callable[[], None]) -> None:
        self._out = out
        self._clear = clear
        self._printed = self._current = ""

    def begin(self) -> None:
        """Start the text again, after a handover or for the next model call."""
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
        """Close a complete text; the next one begins on a new line."""
        if self._printed:
            self._write("\n")
        self._printed = self._current = ""

    def finish(self, text: str) -> None:
        """Print the missing part of a delivered text."""
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
