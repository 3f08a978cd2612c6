"""Side panel of a tab: calls, changed files, running tasks, context window and folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import DirectoryTree, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from agent.i18n import t
from agent.text.visible import escape_line
from gateway.cli.console.output.diff import diff
from gateway.presenter.blocks import Block
from gateway.presenter.text import without_ansi

_MAX_LINE_CHARS = 200


class SidePanel(Vertical):
    """Panel with calls, tasks and the context window of the active tab.

    Posts `ReadWanted` to show something in full and `FileNamed` to mention a file in the message.
    """

    class ReadWanted(Message):
        def __init__(self, heading: str, renderable: RenderableType) -> None:
            super().__init__()
            self.heading = heading
            self.renderable = renderable

    class FileNamed(Message):
        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._folder = folder
        self._calls: list[Block] = []
        self._changes: list[Block] = []

    def compose(self) -> ComposeResult:
        with TabbedContent():
            with TabPane(t("Calls"), id="calls"):
                yield OptionList(id="call-list", markup=False)
            with TabPane(t("Changes"), id="changes"):
                yield OptionList(id="change-list", markup=False)
            with TabPane(t("Tasks"), id="tasks"):
                yield Static(id="task-list", markup=False)
            with TabPane(t("Window"), id="window"):
                yield Static(id="window-use", markup=False)
            if self._folder is not None:
                with TabPane(t("Files"), id="files"):
                    yield _ShownFiles(self._folder)

    def show_calls(self, calls: Iterable[Block]) -> None:
        """Show the calls, newest first."""
        newest = list(reversed(list(calls)))
        if newest == self._calls:
            return
        self._calls = newest
        self._changes = [block for block in newest if block.diff]
        _fill(self.query_one("#call-list", OptionList), map(_call, self._calls))
        _fill(self.query_one("#change-list", OptionList), map(_change, self._changes))
        self._read_files()

    def show_folder(self, folder: Path | None) -> None:
        """Show the files of another folder."""
        if folder is None or self._folder in (None, folder):
            return
        self._folder = folder
        self.query_one(_ShownFiles).path = folder

    def show_tasks(self, names: Sequence[str]) -> None:
        text = "\n".join(f"● {escape_line(name)}" for name in names)
        self.query_one("#task-list", Static).update(text or t("Nothing runs in the background."))

    def show_window(self, lines: Sequence[str]) -> None:
        self.query_one("#window-use", Static).update("\n".join(lines))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        is_change = event.option_list.id == "change-list"
        block = (self._changes if is_change else self._calls)[event.option_index]
        self.post_message(self.ReadWanted(block.heading, whole_call(block)))

    def on_tabbed_content_tab_activated(self) -> None:
        self._read_files()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        self.post_message(self.FileNamed(event.path))

    def _read_files(self) -> None:
        """Reload the tree, which does not detect new or deleted files."""
        if self.query_one(TabbedContent).active == "files":
            self.query_one(_ShownFiles).reload()


def whole_call(block: Block) -> RenderableType:
    """Render a call with all of its arguments and its whole result."""
    fields = {t("tool"): block.tool, **block.arguments}
    parts: list[RenderableType] = [
        Text(f"{without_ansi(str(name))}: {without_ansi(str(value))}", "dim")
        for name, value in fields.items()
    ]
    parts += [Text(""), Text(block.text, "red" if block.state == "failed" else "")]
    if block.diff:
        parts += [Text(""), diff(block.diff, None)]
    if block.file:
        parts.append(Text(without_ansi(block.file), "dim"))
    return Group(*parts)


class _ShownFiles(DirectoryTree):
    """File tree without hidden files."""

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        return [path for path in paths if not path.name.startswith(".")]


def _fill(options: OptionList, lines: Iterable[Text]) -> None:
    options.clear_options()
    options.add_options(Option(line) for line in lines)


def _call(block: Block) -> Text:
    mark, style = ("✗ ", "red") if block.state == "failed" else ("● ", "green")
    text = Text.assemble((mark, style), block.heading, no_wrap=True, overflow="ellipsis")
    return text.append(f" {block.elapsed}") if block.elapsed else text


def _change(block: Block) -> Text:
    lines = (block.diff or "").split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    name = str(block.arguments.get("path") or block.heading)
    return Text.assemble(
        escape_line(name)[:_MAX_LINE_CHARS], (f"  +{added}", "green"), (f" -{removed}", "red"),
        no_wrap=True,
    )  # fmt: skip
