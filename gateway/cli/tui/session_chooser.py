"""Dialog for opening a session: all sessions, most recent first, filtered by name."""

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from agent.i18n import t
from agent.text.visible import escape_line
from gateway.cli.console.input.session_picker import PickerItem

_NAME_CHARS = 60


class SessionChooser(ModalScreen[str | None]):
    """Dialog that returns the id of the selected session."""

    BINDINGS = [("escape", "dismiss", "")]  # noqa: RUF012 - textual's way

    def __init__(self, choices: Sequence[PickerItem]) -> None:
        super().__init__()
        self._choices = choices

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = t("Open a session")
            yield Input(placeholder=t("words of its name, or its id"))
            yield OptionList()

    def on_mount(self) -> None:
        self._fill("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self) -> None:
        options = self.query_one(OptionList)
        if options.option_count:
            self.dismiss(options.get_option_at_index(options.highlighted or 0).id)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down") and isinstance(self.focused, Input):
            options = self.query_one(OptionList)
            (options.action_cursor_up if event.key == "up" else options.action_cursor_down)()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def _fill(self, words: str) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        low = words.casefold().split()
        options.add_options(
            Option(_line(choice), id=choice.id) for choice in self._choices if choice.fits(low)
        )
        if options.option_count:
            options.highlighted = 0


def _line(choice: PickerItem) -> Text:
    line = Text(escape_line(choice.name)[:_NAME_CHARS] or "–", no_wrap=True)
    line.append(f"  {choice.id} · {choice.when.strip()}", "dim")
    return line
