"""Prompt with history, multi-line input and command completion."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from gateway.cli.console.input.completion import Completions
from gateway.cli.console.input.history import ConsoleHistory
from gateway.cli.console.input.job_control import stop_job
from gateway.cli.console.input.keyboard_protocol import KeyboardProtocol
from gateway.cli.console.input.keys import Key, OnKey, key_bindings, plain_lines
from gateway.cli.console.input.lone_letter import LoneLetter
from gateway.cli.console.input.paste_parser import PasteParser
from gateway.cli.console.input.pastes import Pastes

if TYPE_CHECKING:
    from prompt_toolkit.input.vt100 import Vt100Input

    from gateway.cli.console.input.session_picker import PickerItem, Preview

_KEYS: dict[str, Key] = {
    Keys.ControlM: "enter",
    Keys.ControlJ: "newline",
    Keys.Tab: "queue",
    Keys.ControlH: "backspace",
    Keys.ControlW: "word",
    Keys.ControlU: "line",
    Keys.ControlC: "interrupt",
    Keys.ControlO: "unfold",
    Keys.ControlZ: "suspend",
    Keys.Escape: "escape",
}
_ESCAPE_S = 0.1
_MENU_ROWS = 8
# Style only the text: coloured blanks would fill the line, and a full line wraps when the window
# becomes narrower, which scrolls the content above it away.
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse", "bottom-toolbar.text": "ansibrightblack"})
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class _Output(Vt100_Output):
    """Output that does not query the cursor position.

    The bottom toolbar is directly below the input instead of at the bottom of the window, and no
    reply to the query is left on the screen.
    """

    def erase_down(self) -> None:
        """Erase from the second cell on, and then the first cell.

        tmux treats an erase that begins in the corner as a cleared screen and copies all of it into
        its history.
        """
        self.write_raw("\x1b7\x1b[C\x1b[J\x1b8\x1b[X")

    def get_rows_below_cursor_position(self) -> int:
        return 1


class Prompt:
    """Prompt that reads lines between turns and single keys during a turn.

    `draft` is the beginning of the next line, `folder` the working folder of the conversation. In
    lines and drafts a placeholder may replace a paste, see `pastes`. `mark` is the prompt symbol.
    """

    def __init__(
        self, history: Path, folder: str, completions: Completions, mark: str = "› "
    ) -> None:
        self.mark = mark
        self.status: Callable[[int], str] = lambda _: ""
        self._input = create_input(always_prefer_tty=True)
        terminal = cast("Vt100Input", self._input)
        terminal.vt100_parser = PasteParser(terminal.vt100_parser.feed_key_callback)
        self._keyboard = KeyboardProtocol(terminal.vt100_parser, self._write)
        # Mode of the terminal before this program.
        self._shell_mode: list[Any] | None = None
        self._reads_keys = False
        self._leaving = False
        self._line: asyncio.Future[str | None] | None = None
        self._unread_line: str | None = None
        self.draft = ""
        self.completions = completions
        self.pastes = pastes = Pastes()
        self._history = ConsoleHistory(history, folder, pastes.recall, pastes.whole)
        self._session: PromptSession[str | None] = PromptSession(
            history=self._history,
            completer=completions,
            complete_while_typing=True,
            key_bindings=key_bindings(pastes, self._unfold, self._suspend_prompt),
            multiline=True,
            prompt_continuation="  ",
            input=self._input,
            output=_Output.from_pty(sys.stdout, term=os.environ.get("TERM")),
            reserve_space_for_menu=0,
            bottom_toolbar=lambda: self.status(self._session.output.get_size().columns),
            style=_STYLE,
        )
        self._letters = LoneLetter(self._send_letter)
        self._session.default_buffer.on_text_changed += lambda buffer: self._letters.note(
            buffer.text
        )
        app = self._session.app
        if rewraps(os.environ):
            app.before_render += lambda _: self._go_up()
            on_resize = app._on_resize

            def resized() -> None:
                self._go_up()
                on_resize()

            app._on_resize = resized  # type: ignore[method-assign]  # it has no event
        app.before_render += lambda _: self._make_room()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Disable echo and line editing of the terminal, also between two reads.

        Input that arrives in a gap is available to the next read.
        """
        self._shell_mode = termios.tcgetattr(self._input.fileno())
        with self._input.raw_mode():
            # The terminal has converted each earlier Enter into a line feed.
            early = self._input.read_keys()
            store_typeahead(self._input, [_as_enter(key) for key in early])
            self._keyboard.begin()
            try:
                yield
            finally:
                self._keyboard.end()

    async def read(self, question: str = "", *, letters: Collection[str] = ()) -> str | None:
        """Return a message, or None after `leave`. One of the `letters` alone needs no Enter.

        Raises `EOFError` (Ctrl-D) and `KeyboardInterrupt`. Input is not lost on cancellation: a
        finished line is returned by the next call, an unfinished one becomes the draft.
        """
        if self._unread_line is not None:
            line, self._unread_line = self._unread_line, None
            return line
        draft, self.draft = self.draft, ""
        self._session.app.erase_when_done = False
        self._letters.offer(letters, draft)
        try:
            return await self._session.prompt_async(
                question or self.mark,
                default=draft,
                handle_sigint=False,
                pre_run=self._begin,
            )
        except asyncio.CancelledError:
            line_end = self._line
            if line_end is None or line_end.cancelled():
                self.draft = self._session.default_buffer.text
            elif line_end.exception() is None and not self._leaving:
                self._unread_line = line_end.result()
            raise
        finally:
            self._letters.offer(())
            self._leaving = False
            self._line = None

    async def pick(self, choices: Sequence["PickerItem"], preview: "Preview") -> str | None:
        """Choose an item on the whole screen; return None if cancelled."""
        from gateway.cli.console.input.session_picker import Picker

        return await Picker(choices, preview).run(self._input, self._session.output)

    async def move(self, folder: str, completions: Completions) -> None:
        """Switch to another working folder."""
        await self.completions.close()
        self._history.folder = folder
        self.completions = self._session.completer = completions

    async def close(self) -> None:
        await self.completions.close()

    def leave(self) -> None:
        """End `read`; the current input becomes the draft."""
        self._leaving = True
        if self._session.app.is_running and not self._session.app.is_done:
            self._leave_at_once()

    def keep_draft(self) -> None:
        """Store the current input as the draft, because `read` is about to be cancelled."""
        if self._session.app.is_running and not self._session.app.is_done:
            self.draft = self._session.default_buffer.text
            self._session.app.erase_when_done = True

    def interrupt(self) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=KeyboardInterrupt())

    def _send_letter(self) -> None:
        """Make `read` return the letter in the line, which is not added to the history."""
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(result=self._session.default_buffer.text)

    def _unfold(self) -> None:
        """Make `read` return `/output`, as if it had been typed."""
        self.draft = self._session.default_buffer.text
        self._session.app.erase_when_done = True
        self._session.app.exit(result="/output")

    def _suspend_prompt(self) -> None:
        # It erases the prompt, and draws it again afterwards.
        run_in_terminal(self.suspend)

    def suspend(self) -> None:
        """Stop this process and return the terminal to the shell until the shell continues it."""
        terminal = self._input.fileno()
        own_mode = termios.tcgetattr(terminal)
        self._keyboard.end()
        self._write(_PASTE_OFF)
        if self._shell_mode is not None:
            termios.tcsetattr(terminal, termios.TCSADRAIN, self._shell_mode)
        stop_job()
        termios.tcsetattr(terminal, termios.TCSADRAIN, own_mode)
        if self._reads_keys:
            self._write(_PASTE_ON)
        self._keyboard.begin()

    def _make_room(self) -> None:
        """Reserve rows for the completion menu only if it is open or may open at the next key."""
        buffer = self._session.default_buffer
        before = self._session.reserve_space_for_menu
        if buffer.complete_state:
            self._session.reserve_space_for_menu = _MENU_ROWS
        elif before and not self.completions.may_follow(buffer.document):
            self._session.reserve_space_for_menu = 0
            # The renderer does not reduce its height on its own.
            self._session.app.renderer.erase(leave_alternate_screen=False)

    def _go_up(self) -> None:
        """Erase the prompt from its current first row, after a narrower window wrapped it.

        A key may arrive before the resize signal.
        """
        renderer, output = self._session.app.renderer, self._session.output
        last_screen, before = renderer.last_rendered_screen, renderer._last_size
        columns = output.get_size().columns
        if last_screen is None or before is None or before.columns <= columns:
            return
        at = renderer._cursor_pos
        lines = [_cells(last_screen.data_buffer[row]) for row in range(at.y)]
        lines.append(_cells(last_screen.data_buffer[at.y])[: at.x])
        rows = sum(wrapped_rows(cells, columns) for cells in lines) - 1
        output.cursor_up(rows - at.y)
        renderer.erase(leave_alternate_screen=False)

    def _begin(self) -> None:
        self._line = self._session.app.future
        self._leave_at_once()

    def _leave_at_once(self) -> None:
        if self._leaving:
            self.draft = self._session.default_buffer.text
            self._session.app.erase_when_done = True
            self._session.app.exit(result=None)

    @contextmanager
    def keys(self, on_key: OnKey) -> Iterator[None]:
        """Send every key to `on_key` without echo, while the context is open."""
        loop = asyncio.get_running_loop()
        flush: asyncio.TimerHandle | None = None

        def press(keys: Sequence[KeyPress]) -> None:
            after_escape = False
            for n, pressed in enumerate(keys, 1):
                key, text = _meaning(pressed, self.pastes)
                if after_escape and key == "enter":
                    key = "newline"
                after_escape = key == "escape"
                # Alt is sent as an Escape before the key, in the same batch.
                if key is not None and not (after_escape and n < len(keys)):
                    on_key(key, text)

        def on_ready() -> None:
            nonlocal flush
            if flush is not None:
                flush.cancel()
            press(self._input.read_keys())
            # An Escape is a separate key only if nothing follows it.
            flush = loop.call_later(_ESCAPE_S, lambda: press(self._input.flush_keys()))

        with self._input.raw_mode(), self._input.attach(on_ready):
            self._write(_PASTE_ON)
            self._reads_keys = True
            press(get_typeahead(self._input))
            try:
                yield
            finally:
                self._reads_keys = False
                if flush is not None:
                    flush.cancel()
                self._write(_PASTE_OFF)

    def _write(self, sequence: str) -> None:
        self._session.output.write_raw(sequence)
        self._session.output.flush()


def rewraps(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal wraps its lines again at another width.

    In any other terminal, moving up further would erase other output.
    """
    if environ.get("STY"):
        return False
    variables = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WT_SESSION")
    return any(map(environ.get, variables)) or environ.get("TERM_PROGRAM") in (
        *("iTerm.app", "Apple_Terminal", "WezTerm", "ghostty", "vscode"),
    )


def wrapped_rows(cells: Sequence[int], columns: int) -> int:
    """Return the number of rows for characters of these widths."""
    rows, used = 1, 0
    for width in cells:
        if used + width > columns:
            rows, used = rows + 1, 0
        used += width
    return rows


def _cells(row: Mapping[int, Char]) -> list[int]:
    """Return the width of the character in each column; trailing blanks were not drawn."""
    last = max((at for at, char in row.items() if char.char != " "), default=-1)
    return [row[at].width if at in row else 1 for at in range(last + 1)]


def _as_enter(pressed: KeyPress) -> KeyPress:
    return KeyPress(Keys.ControlM, "\r") if pressed.key == Keys.ControlJ else pressed


def _meaning(pressed: KeyPress, pastes: Pastes) -> tuple[Key | None, str]:
    if pressed.key == Keys.BracketedPaste:
        return "text", pastes.fold(plain_lines(pressed.data))
    if isinstance(pressed.key, Keys):
        return _KEYS.get(pressed.key.value), ""
    return "text", pressed.key
