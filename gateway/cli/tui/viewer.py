"""Viewer for long text above the other screens, and the person's pager."""

import asyncio
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from rich.console import RenderableType
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.i18n import t

_PAGER = "less -R"


class Viewer(ModalScreen[None]):
    """Screen with a one-line `title` and scrollable content."""

    BINDINGS = [("escape,q", "dismiss", "")]  # noqa: RUF012 - textual's way

    def __init__(self, title: str, renderable: RenderableType) -> None:
        super().__init__()
        self._heading = title
        self._renderable = renderable

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = self._heading.replace("[", "\\[")
            scroll.border_subtitle = t("Escape closes")
            yield Static(self._renderable, markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


async def open_pager(app: App[None], text: str) -> str | None:
    """Show a text in $PAGER, or else in less, and wait until it is closed.

    Running turns continue. Returns an error message if no pager exists.
    """
    command = shlex.split(os.environ.get("PAGER") or _PAGER)
    program = shutil.which(command[0]) if command else None
    if program is None:
        return t("no pager found: set PAGER, or install less")
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        await asyncio.to_thread(Path(file.name).write_text, text, "utf-8", "replace")
        # The application must not paint over the pager.
        with app.batch_update(), app.suspend():
            process = await asyncio.create_subprocess_exec(program, *command[1:], file.name)
            await process.wait()
    app.refresh(layout=True)
    return None
