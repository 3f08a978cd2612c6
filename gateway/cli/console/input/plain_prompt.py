"""Prompt for a dumb terminal, which delivers whole lines."""

import asyncio
import os
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

from gateway.cli.console.input.pastes import Pastes

if TYPE_CHECKING:
    # Loads prompt_toolkit, which a single turn does not need.
    from gateway.cli.console.input.keys import OnKey

_READ_BYTES = 65_536
# Ctrl-O, which a dumb terminal delivers as an ordinary character.
_UNFOLD = "\x0f"


class PlainPrompt:
    """Replacement for `prompt.Prompt` without history, completion and drafts."""

    mark = "> "

    def __init__(self, source: TextIO, out: TextIO) -> None:
        self._fd = source.fileno()
        self._out = out
        self._partial = b""
        self._lines: deque[str] = deque()
        self._has_ended = False
        self._waiting: asyncio.Future[str | None] | None = None
        self.draft = ""
        self.pastes = Pastes()  # always empty here

    def quiet(self) -> AbstractContextManager[None]:
        """Do nothing, because the terminal provides line editing."""
        return nullcontext()

    async def read(self, question: str = "", *, letters: Collection[str] = ()) -> str | None:
        """Return a line, or None after `leave`. Raises `EOFError`, `KeyboardInterrupt`.

        A letter needs an Enter here.
        """
        self._out.write(question or self.mark)
        self._out.flush()
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_reader(self._fd, self._on_ready)
        try:
            self._hand_over()
            return await self._waiting
        finally:
            loop.remove_reader(self._fd)
            self._waiting = None

    async def close(self) -> None:
        """Do nothing, because the prompt has no resources to release."""

    def leave(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._out.write("\n")
            self._waiting.set_result(None)

    def keep_draft(self) -> None:
        """Do nothing, because the terminal buffers unfinished lines."""

    def interrupt(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(KeyboardInterrupt())

    @contextmanager
    def keys(self, on_key: "OnKey") -> Iterator[None]:
        """Send each line to `on_key` as single keys and Enter, while the context is open."""
        loop = asyncio.get_running_loop()

        def on_ready() -> None:
            self._take()
            if self._has_ended:
                loop.remove_reader(self._fd)
            while self._lines:
                for letter in self._lines.popleft().replace(_UNFOLD, ""):
                    on_key("text", letter)
                on_key("enter", "")

        loop.add_reader(self._fd, on_ready)
        try:
            yield
        finally:
            loop.remove_reader(self._fd)

    def _on_ready(self) -> None:
        self._take()
        self._hand_over()

    def _take(self) -> None:
        data = os.read(self._fd, _READ_BYTES)
        self._has_ended = not data
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines += [line.decode(errors="replace") for line in lines]

    def _hand_over(self) -> None:
        if self._waiting is None or self._waiting.done():
            return
        if self._lines and _UNFOLD in self._lines[0]:
            # Handle it as a separate line; the next call reads the rest of the line.
            rest = self._lines.popleft().replace(_UNFOLD, "")
            self._lines.extendleft([rest] if rest.strip() else [])
            self._waiting.set_result("/output")
        elif self._lines:
            self._waiting.set_result(self._lines.popleft())
        elif self._has_ended:
            self._waiting.set_exception(EOFError())
