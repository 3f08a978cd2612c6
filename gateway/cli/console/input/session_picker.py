"""Full-screen session picker with a filter and a preview."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output

from agent.i18n import t
from agent.records import frozen
from agent.text.display_width import shortened
from agent.text.visible import escape_invisible

_PREVIEW_ROWS = 8
_MOVES = (("up", -1), ("down", 1), ("c-p", -1), ("c-n", 1), ("pageup", -10), ("pagedown", 10))


@frozen
class PickerItem:
    """Selectable session with its name and its age."""

    id: str
    name: str
    when: str

    def fits(self, words: Sequence[str]) -> bool:
        text = f"{self.id} {self.name}".casefold()
        return all(word in text for word in words)


Preview = Callable[[str], Awaitable[Sequence[str]]]


class Picker:
    """Full-screen session picker.

    `await Picker(choices, preview).run(input, output)` returns the id, or None if cancelled.
    """

    def __init__(self, choices: Sequence[PickerItem], preview: Preview) -> None:
        self._choices = choices
        self._preview = preview
        self._visible = list(choices)
        self._at = 0
        self._lines: dict[str, Sequence[str]] = {}
        self._has_drawn = asyncio.Event()
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._narrow())

    async def run(self, input_: Input, output: Output) -> str | None:
        app = self._application(input_, output)
        app.after_render += lambda _: self._has_drawn.set()
        looking = asyncio.create_task(self._look(app), name="preview of a session")
        try:
            return await app.run_async(handle_sigint=False)
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    def _application(self, input_: Input, output: Output) -> Application[str | None]:
        columns = output.get_size().columns
        rows = FormattedTextControl(
            lambda: self._rows(columns), get_cursor_position=lambda: Point(0, self._at)
        )
        preview = FormattedTextControl(lambda: self._preview_text(columns))
        filter_window = Window(BufferControl(self._filter, [BeforeInput("session › ")]), height=1)
        line = Window(height=1, char="─")
        parts = [filter_window, Window(rows), line, Window(preview, height=_PREVIEW_ROWS)]
        return Application(
            Layout(HSplit(parts), focused_element=filter_window),
            key_bindings=self._bindings(),
            full_screen=True,
            input=input_,
            output=output,
        )

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=self._selected_id())

        @bindings.add("c-c")
        @bindings.add("c-d")
        @bindings.add("escape")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        def move(key: str, by: int) -> None:
            @bindings.add(key)
            def _(event: KeyPressEvent) -> None:
                self._at = max(0, min(self._at + by, len(self._visible) - 1))

        for key, by in _MOVES:
            move(key, by)
        return bindings

    def _narrow(self) -> None:
        words = self._filter.text.casefold().split()
        self._visible = [choice for choice in self._choices if choice.fits(words)]
        self._at = 0

    async def _look(self, app: Application[str | None]) -> None:
        """Load the preview of the selected session after each change."""
        while True:
            await self._has_drawn.wait()
            self._has_drawn.clear()
            session = self._selected_id()
            if session is not None and session not in self._lines:
                self._lines[session] = await self._preview(session)
                app.invalidate()

    def _selected_id(self) -> str | None:
        return self._visible[self._at].id if self._visible else None

    def _rows(self, columns: int) -> StyleAndTextTuples:
        fragments: StyleAndTextTuples = []
        for n, choice in enumerate(self._visible):
            mark, style = ("› ", "reverse") if n == self._at else ("  ", "")
            text = f"{mark}{choice.id}  {choice.when}  {escape_invisible(choice.name)}"
            fragments += [(style, shortened(text, columns - 1)), ("", "\n")]
        return fragments or [("", f"  {t('no matches')}")]

    def _preview_text(self, columns: int) -> StyleAndTextTuples:
        lines = self._lines.get(self._selected_id() or "", ())
        preview = [
            shortened(" ".join(escape_invisible(line).split()), columns - 1) for line in lines
        ]
        return [("", "\n".join(preview[:_PREVIEW_ROWS]))]
