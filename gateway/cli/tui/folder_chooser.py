"""Dialog for the folder in which a session continues."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from agent.i18n import t
from gateway.cli.console.chat.place import FolderQuestion
from gateway.core.session_folder import SessionFolder


class FolderChooser(ModalScreen[SessionFolder | None]):
    """Dialog that returns the selected folder, or None if the session should not be opened."""

    BINDINGS = [("escape", "dismiss", "")]  # noqa: RUF012 - textual's way

    def __init__(self, choice: FolderQuestion) -> None:
        super().__init__()
        self._folders = (choice.own, choice.here)
        self._labels = (
            t("Continue in its folder, {folder}", folder=choice.own_label),
            t("Continue here, in {folder}", folder=choice.here_label),
        )

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = t("This session belongs to another folder")
            yield OptionList(*map(Option, self._labels), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._folders[event.option_index])
