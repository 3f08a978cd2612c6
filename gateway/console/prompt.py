"""The line that a person types on: history, several lines, completion of commands."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys

from gateway.console.keys import Key, OnKey

if TYPE_CHECKING:
    from gateway.console.picker import Choice, Preview

_KEYS: dict[str, Key] = {
    Keys.ControlM: "enter",
    Keys.ControlJ: "newline",
    Keys.ControlH: "backspace",
    Keys.ControlW: "word",
    Keys.ControlU: "line",
    Keys.ControlC: "interrupt",
    Keys.Escape: "escape",
}
_ESCAPE_S = 0.1
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Prompt:
    """Reads lines while nothing runs, and bare keys while something does.

    `draft` is what the next line begins with.
    """

    def __init__(self, history: Path, commands: Sequence[tuple[str, str]]) -> None:
        self._input = create_input(always_prefer_tty=True)
        self._leaving = False
        self.draft = ""
        self._session: PromptSession[str | None] = PromptSession(
            history=_History(history),
            completer=_Commands(commands),
            complete_while_typing=True,
            key_bindings=_bindings(),
            multiline=True,
            prompt_continuation="  ",
            input=self._input,
            reserve_space_for_menu=4,
        )

    def quiet(self) -> AbstractContextManager[None]:
        """No echo and no line editing by the terminal, between the readers too: what is typed
        in a gap waits for the next one."""
        return self._input.raw_mode()

    async def read(self, question: str = "› ") -> str | None:
        """A message; None after `leave`. Raises `EOFError` (Ctrl-D), `KeyboardInterrupt`."""
        draft, self.draft = self.draft, ""
        self._session.app.erase_when_done = False
        try:
            return await self._session.prompt_async(
                question, default=draft, handle_sigint=False, pre_run=self._leave_at_once
            )
        finally:
            self._leaving = False

    async def pick(self, choices: Sequence["Choice"], preview: "Preview") -> str | None:
        """Choose one on the whole screen; None when nobody wanted to."""
        from gateway.console.picker import Picker

        return await Picker(choices, preview).run(self._input, self._session.output)

    def leave(self) -> None:
        """End `read`; what was typed so far becomes the draft."""
        self._leaving = True
        if self._session.app.is_running and not self._session.app.is_done:
            self._leave_at_once()

    def interrupt(self) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=KeyboardInterrupt())

    def _leave_at_once(self) -> None:
        if self._leaving:
            self.draft = self._session.default_buffer.text
            self._session.app.erase_when_done = True
            self._session.app.exit(result=None)

    @contextmanager
    def keys(self, on_key: OnKey) -> Iterator[None]:
        """Without echo: every key goes to `on_key` until the block ends."""
        loop = asyncio.get_running_loop()
        flush: asyncio.TimerHandle | None = None
        after_escape = False

        def press(keys: Iterable[KeyPress]) -> None:
            nonlocal after_escape
            for pressed in keys:
                key, text = _meaning(pressed)
                if after_escape and key == "enter":
                    key = "newline"
                after_escape = key == "escape"
                if key is not None:
                    on_key(key, text)

        def on_ready() -> None:
            nonlocal flush
            if flush is not None:
                flush.cancel()
            press(self._input.read_keys())
            # A lone Escape is known as such only when nothing follows it.
            flush = loop.call_later(_ESCAPE_S, lambda: press(self._input.flush_keys()))

        with self._input.raw_mode(), self._input.attach(on_ready):
            self._write(_PASTE_ON)
            press(get_typeahead(self._input))
            try:
                yield
            finally:
                if flush is not None:
                    flush.cancel()
                self._write(_PASTE_OFF)

    def _write(self, sequence: str) -> None:
        self._session.output.write_raw(sequence)
        self._session.output.flush()


def _meaning(pressed: KeyPress) -> tuple[Key | None, str]:
    if pressed.key == Keys.BracketedPaste:
        return "text", pressed.data.replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(pressed.key, Keys):
        return _KEYS.get(pressed.key.value), ""
    return "text", pressed.key


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    @bindings.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    return bindings


class _History(FileHistory):
    """A 0600 file. A history that cannot be written is no reason to lose the message."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return ()

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            super().store_string(string)


class _Commands(Completer):
    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or " " in text or "\n" in text:
            return
        for name, summary in self._commands:
            if name.startswith(text):
                yield Completion(name, -len(text), display_meta=summary)
