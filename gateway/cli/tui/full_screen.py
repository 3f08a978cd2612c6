"""Full-screen application of `kore tui`, with sessions in tabs."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.command import CommandPalette
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.screen import ModalScreen, Screen
from textual.widgets import Tab, TabbedContent

from agent.errors import KoreError
from agent.i18n import t
from agent.security.files.file_io import in_thread
from agent.version import VERSION
from gateway.cli.console.chat.local_commands import (
    CHAT_COMMANDS,
    ago,
    help_table,
    session_label,
    sessions_here_first,
)
from gateway.cli.console.chat.place import ConsolePlace, FolderQuestion, folder_question
from gateway.cli.console.input.session_picker import PickerItem
from gateway.cli.console.output.notifier import TerminalNotifier
from gateway.cli.console.output.status_line import StatusLine
from gateway.cli.tui.folder_chooser import FolderChooser
from gateway.cli.tui.key_footer import KeyFooter
from gateway.cli.tui.session_chooser import SessionChooser
from gateway.cli.tui.session_tab import SessionTab
from gateway.cli.tui.side_panel import SidePanel, whole_call
from gateway.cli.tui.tab_conversation import TabStart
from gateway.cli.tui.viewer import Viewer, open_pager
from gateway.control.service import Service
from gateway.core.session_folder import SessionFolder
from gateway.core.turn_choice import PLAN_CHOICES, TurnChoice, choice_of
from gateway.presenter.text import complaint, home_relative

_MAX_LISTED_SESSIONS = 500
_POLL_INTERVAL_S = 2.0
# In a terminal that does not report its focus, typing shows that the person is present.
_PRESENCE_S = 5.0
_OF_TABS = frozenset(
    {
        *("new_tab", "open_session", "close_tab", "step", "go_to"),
        *("search", "toggle_panel", "last_call", "pager", "scroll", "to_start", "to_end"),
        "command_palette",
    }
)
# Actions of the footer, which drops the last ones first; the palette lists all of them.
_FOOTER_ACTIONS = (
    *("new_tab", "open_session", "step(1)", "search", "toggle_panel", "last_call"),
    *("close_tab", "pager"),
)
NewStatus = Callable[[ConsolePlace], StatusLine]


class FullScreen(App[None]):
    """Application with one tab per session.

    `service` survives a change of the process that owns the data. `sessions` are opened at startup;
    without any, a new session is opened. `failure` is the exception that ended the application.
    """

    CSS_PATH = "full_screen.tcss"
    TITLE = "Kore"
    # The application has its own keys to quit; Ctrl-C copies the selection.
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True

    def __init__(
        self,
        service: Service,
        start: TabStart,
        new_status: NewStatus,
        sessions: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self._service = service
        self._start = start
        self._new_status = new_status
        self._sessions = sessions
        self._folder = folder
        self._count = 0
        self._title_columns = 0
        self.notifier = TerminalNotifier(self._write_control)
        # A terminal that has reported its focus once reports every change.
        self._reports_focus = False
        self._last_input_at = time.monotonic()
        # References for timers and workers, which still run while the widgets are being removed.
        self._tabs = TabbedContent(id="sessions")
        self._panel = SidePanel(folder)
        self._panel.display = False
        for keys, action, words in (
            ("ctrl+n", "new_tab", t("New")),
            ("ctrl+o", "open_session", t("Open")),
            ("ctrl+w", "close_tab", t("Close")),
            ("f6", "step(1)", t("Next")),
            ("ctrl+pagedown", "step(1)", ""),
            ("f5,ctrl+pageup", "step(-1)", ""),
            ("ctrl+f", "search", t("Search")),
            ("f2", "toggle_panel", t("Panel")),
            ("f3", "last_call", t("Result")),
            ("f4", "pager", t("Pager")),
            ("pageup", "scroll(-1)", ""),
            ("pagedown", "scroll(1)", ""),
            ("ctrl+home", "to_start", ""),
            ("ctrl+z", "suspend_process", ""),
            ("ctrl+end", "to_end", ""),
            *((f"alt+{number}", f"go_to({number})", "") for number in range(1, 10)),
        ):
            # These keys take precedence over the keys of the message input.
            self._bindings.bind(keys, action, words, show=bool(words), priority=True)
        self.bind("escape", "stop", description=t("Stop"))
        self._bindings.key_to_bindings.pop(self.COMMAND_PALETTE_BINDING, None)
        palette = (self.COMMAND_PALETTE_BINDING, "command_palette", t("Commands"))
        self._bindings.bind(*palette, show=False, priority=True)

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self._tabs
            yield self._panel
        yield KeyFooter(_FOOTER_ACTIONS, self._escape_words)

    async def on_mount(self) -> None:
        for session in self._sessions:
            await self._open(session)
        if not self._sessions:
            await self._add_tab(None)
        self.set_interval(_POLL_INTERVAL_S, self._refresh_panel)
        # After Ctrl-Z and `fg` the terminal is empty, which the library does not know.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.screen_change_signal.subscribe(self, lambda _: self.default_screen.refresh_bindings())
        self.default_screen.screen_layout_refresh_signal.subscribe(self, self._underline)

    @property
    def tab(self) -> SessionTab | None:
        """Active tab; None before the first is mounted and while the screen closes."""
        return next((tab for tab in self._all_tabs() if tab.id == self._tabs.active), None)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield SystemCommand(t("New session"), t("in a tab of its own"), self.action_new_tab)
        yield SystemCommand(t("Open a session"), "", self.action_open_session)
        yield SystemCommand(t("Close this tab"), t("the session is kept"), self.action_close_tab)
        yield SystemCommand(t("Search"), t("in this session"), self.action_search)
        yield SystemCommand(t("Side panel"), t("calls, changes, tasks"), self.action_toggle_panel)
        yield SystemCommand(t("Open in pager"), t("all of this session"), self.action_pager)
        yield SystemCommand(t("Theme"), t("choose the colors"), self.action_change_theme)
        yield SystemCommand(t("Quit"), t("work in a gateway continues"), self.action_quit)
        for name, summary in CHAT_COMMANDS:
            yield SystemCommand(name, t(summary), lambda name=name: self._write(f"{name} "))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the actions of the tabs while a modal screen is open."""
        if isinstance(self.screen, ModalScreen) and action in _OF_TABS:
            return False
        return super().check_action(action, parameters)

    def action_command_palette(self) -> None:
        self.push_screen(CommandPalette(placeholder=t("Find a command …")))

    async def action_new_tab(self) -> None:
        await self._add_tab(None)

    async def action_close_tab(self) -> None:
        tab = self.tab
        if tab is None or tab.id is None:
            return
        await self._tabs.remove_pane(tab.id)
        if self._tabs.tab_count == 0:
            await self._add_tab(None)

    def action_step(self, step: int) -> None:
        tabs = self._all_tabs()
        if self.tab in tabs:
            self._bring_to_front(tabs[(tabs.index(self.tab) + step) % len(tabs)])

    def action_go_to(self, number: int) -> None:
        tabs = self._all_tabs()
        if number <= len(tabs):
            self._bring_to_front(tabs[number - 1])

    async def action_open_session(self) -> None:
        try:
            workspace = self._start.options.cwd
            sessions = await sessions_here_first(self._service, workspace, _MAX_LISTED_SESSIONS)
        except KoreError as exc:
            self._complain(exc)
            return
        now = time.time()
        choices = [
            PickerItem(info.id, session_label(info, workspace), ago(now - info.last_active_at))
            for info in sessions
        ]
        await self.push_screen(SessionChooser(choices), self._open)

    def action_search(self) -> None:
        if self.tab is not None:
            self.tab.open_search()

    def action_toggle_panel(self) -> None:
        panel = self._panel
        panel.display = not panel.display
        self._refresh_panel()

    def action_last_call(self) -> None:
        calls = self.tab.conversation.content.calls if self.tab is not None else ()
        if calls:
            self.push_screen(Viewer(calls[-1].heading, whole_call(calls[-1])))
        else:
            self.notify(t("No tool was called here yet."))

    def action_pager(self) -> None:
        if self.tab is not None:
            self.run_worker(self._page(self.tab.feed.plain_text()), name="pager")

    def action_scroll(self, pages: int) -> None:
        if self.tab is not None:
            self.tab.scroll_pages(pages)

    def action_to_start(self) -> None:
        if self.tab is not None:
            self.tab.feed.scroll_to_row(0)

    def action_to_end(self) -> None:
        if self.tab is not None:
            self.tab.feed.go_to_end()

    def action_stop(self) -> None:
        tab = self.tab
        if tab is not None and not tab.close_search() and not tab.stop_command():
            self.run_worker(self._stop(tab), name="stop")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.AppFocus | events.AppBlur):
            self._reports_focus = True
        if isinstance(event, events.Key | events.MouseDown):
            self._last_input_at = time.monotonic()
        if isinstance(event, events.Key | events.MouseDown | events.AppFocus):
            self.notifier.clear()
        await super().on_event(event)

    def on_session_tab_calls(self, event: SessionTab.Calls) -> None:
        if not self._is_watched:
            self.notifier.notify(event.attention)

    @property
    def _is_watched(self) -> bool:
        """True while the person looks at this screen, if the terminal reports this."""
        has_just_typed = time.monotonic() - self._last_input_at < _PRESENCE_S
        return self.app_focus and (self._reports_focus or has_just_typed)

    def _write_control(self, sequence: str) -> None:
        if not self.is_headless and self._driver is not None:
            self._driver.write(sequence)

    def on_unmount(self) -> None:
        self.notifier.clear()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        if event.tabbed_content.id == "sessions" and self.tab is not None:
            self.tab.come_to_front()
            self._refresh_panel()

    def on_session_tab_changed(self, event: SessionTab.Changed) -> None:
        tab = event.tab
        label = self._label_of(tab)
        if label is None:
            return
        title = tab.title_text
        if label.label_text != title.plain:
            if tab.state == "asks" and tab is not self.tab:
                self.notify(t("{name} asks something", name=title.plain[2:]), markup=False)
            label.label = title
        if tab is self.tab:
            self._refresh_panel()
            self.query_one(KeyFooter).check_words()

    async def on_session_tab_ordered(self, event: SessionTab.Ordered) -> None:
        match event.command:
            case "/new":
                await self.action_new_tab()
            case command if (choice := choice_of(PLAN_CHOICES, command)) is not None:
                await self._carry_out_fresh(event.tab, choice)
            case "/help":
                await self.push_screen(Viewer(t("Help"), help_table(event.tab.place.workdir)))
            case "/output":
                self.action_last_call()
            case "/resume" if event.rest:
                await self._open(event.rest)
            case "/sessions" | "/resume":
                await self.action_open_session()
            case "/worktree":
                await self._add_worktree_tab(event.tab, event.rest)
            case "/export":
                session = event.tab.conversation.session or "ID"
                event.tab.say(f"kore sessions show {session} --html > talk.html")
            case _:
                self.exit()

    async def _carry_out_fresh(self, planned: SessionTab, choice: TurnChoice) -> None:
        """Carry out the plan of a tab in a new tab that works in the same folder."""
        folder = planned.place.options.folder
        tab = await self._add_tab(None, None if folder == self._start.options.folder else folder)
        text = f"{choice.text} {planned.conversation.session}"
        tab.run_worker(tab.choose(replace(choice, text=text)), name="choice after a turn")

    async def on_side_panel_read_wanted(self, event: SidePanel.ReadWanted) -> None:
        await self.push_screen(Viewer(event.heading, event.renderable))

    def on_side_panel_file_named(self, event: SidePanel.FileNamed) -> None:
        path = event.path
        folder = self._folder if self.tab is None else self.tab.folder or self._folder
        if folder is not None and path.is_relative_to(folder):
            path = path.relative_to(folder)
        text = str(path)
        self._write(f'@"{text}" ' if " " in text else f"@{text} ")

    def _handle_exception(self, error: Exception) -> None:
        """Store the exception and exit, because a traceback would be unreadable on this screen."""
        if self.failure is None:
            self.failure = error
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.exit(return_code=1)

    async def _add_tab(
        self, session: str | None, folder: SessionFolder | None = None
    ) -> SessionTab:
        """Add a tab that works in the person's folder, or in another one."""
        self._count += 1
        place = await asyncio.to_thread(self._start.open_place, folder)
        status = self._new_status(place)
        tab = SessionTab(self._service, self._start, place, session, status, self._count)
        if session is None and self._count == 1:
            where = f" · {home_relative(str(self._folder))}" if self._folder else ""
            tab.conversation.content.say(f"Kore {VERSION}{where}")
            tab.conversation.content.say(t("/help lists the commands, Ctrl-P searches them."))
        await self._tabs.add_pane(tab)
        self._bring_to_front(tab)
        return tab

    async def _add_worktree_tab(self, tab: SessionTab, name: str) -> None:
        """Add a tab with a new session in a worktree of the project of a tab."""
        open_worktree, folder = self._start.open_worktree, tab.place.options.folder
        assert open_worktree is not None, "without it, the line is sent"
        try:
            place = await in_thread(lambda: open_worktree(name, folder))
        except KoreError as exc:
            tab.say(complaint(exc), "red")
            return
        await self._add_tab(None, place.options.folder)

    async def _open(self, session: str | None) -> None:
        if session is None:
            return
        for tab in self._all_tabs():
            if tab.conversation.session == session:
                self._bring_to_front(tab)
                return
        try:
            choice = await self._folder_question(session)
        except KoreError as exc:
            self._complain(exc)
            choice = None
        if choice is None:
            await self._add_tab(session)
            return

        async def open_in(folder: SessionFolder | None) -> None:
            if folder is not None:
                await self._add_tab(session, folder)
            elif self._tabs.tab_count == 0:
                await self._add_tab(None)

        await self.push_screen(FolderChooser(choice), open_in)

    async def _folder_question(self, session: str) -> FolderQuestion | None:
        """Return the folders to choose from for a session, or None for the person's folder."""
        if self._start.is_folder_chosen:
            return None
        choice = await folder_question(self._service, session, self._start.options)
        if choice is not None and choice.is_gone:
            self.notify(choice.remark, severity="warning", markup=False)
            return None
        return choice

    def _bring_to_front(self, tab: SessionTab) -> None:
        if tab.id is not None:
            self._tabs.active = tab.id

    def _all_tabs(self) -> list[SessionTab]:
        return list(self._tabs.query(SessionTab))

    def _label_of(self, tab: SessionTab) -> Tab | None:
        """Return the label of a tab, or None while the tab is being mounted or removed."""
        try:
            return self._tabs.get_tab(tab)
        except NoMatches:
            return None

    def _write(self, text: str) -> None:
        """Insert text into the message input of the active tab."""
        if self.tab is not None:
            self.tab.input.insert(text)
            self.tab.input.focus()

    def _underline(self, _screen: Screen[Any]) -> None:
        """Redraw the line below a title, which has its old width if the layout comes late."""
        if (tab := self.tab) is None or (label := self._label_of(tab)) is None:
            return
        if label.size.width != self._title_columns:
            self._title_columns = label.size.width
            label.post_message(Tab.Relabelled(label))

    def _escape_words(self) -> str:
        if isinstance(self.screen, ModalScreen):
            return t("Close")
        tab = self.tab
        return tab.escape_words if tab is not None and tab.is_mounted else ""

    async def _stop(self, tab: SessionTab) -> None:
        try:
            if await tab.conversation.stop():
                return
        except KoreError as exc:
            self._complain(exc)
        tab.input.focus()

    async def _page(self, text: str) -> None:
        if (trouble := await open_pager(self, text)) is not None:
            self.notify(trouble, severity="warning", markup=False)

    def _complain(self, error: KoreError) -> None:
        self.notify(complaint(error), severity="error", markup=False)

    def _refresh_panel(self) -> None:
        panel, tab = self._panel, self.tab
        if not panel.display or tab is None:
            return
        panel.show_folder(tab.folder or self._folder)
        panel.show_calls(tab.conversation.content.calls)
        panel.show_tasks(tab.status.background)
        panel.show_window(tab.status.lines())
