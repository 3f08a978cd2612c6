"""Tab of one session with its feed, its approval panel and its message input."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.completion import Completion
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TabPane, TextArea

from agent.errors import KoreError
from agent.events import AttentionNeeded, SessionStart
from agent.i18n import t
from agent.text.visible import escape_line
from gateway.cli.console.chat.local_commands import (
    CHAT_COMMANDS,
    CONSOLE_COMMANDS,
    misspelt,
    shell_command_in,
)
from gateway.cli.console.chat.place import ConsolePlace, named_worktree
from gateway.cli.console.input.clipboard import pasted_input
from gateway.cli.console.input.completion import Completions
from gateway.cli.console.input.history import ConsoleHistory
from gateway.cli.console.input.lone_letter import LoneLetter
from gateway.cli.console.input.pastes import Pastes
from gateway.cli.console.output.status_line import StatusLine
from gateway.cli.tui.approval_panel import ApprovalPanel
from gateway.cli.tui.feed import Feed
from gateway.cli.tui.message_input import MessageInput
from gateway.cli.tui.tab_conversation import TabConversation, TabStart
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.messages import QueueMode
from gateway.core.records import Delivered, SessionEvent, SessionIdle, TurnStored
from gateway.core.turn_choice import TurnChoice, choice_of, choices_line
from gateway.presenter.text import complaint

if TYPE_CHECKING:
    from gateway.cli.console.chat.shell_escape import UserCommand

State = Literal["asks", "runs", "news", "idle", "away"]
_MARKS: dict[State, str] = {"asks": "? ", "runs": "● ", "news": "• ", "idle": "", "away": "… "}
_MAX_TITLE_CHARS = 24
# Interval between repaints of the feed while text streams in.
_FRAME_INTERVAL_S = 1 / 20
# Events that may change the status, the name or the choices after a turn.
_STATUS_EVENTS = (SessionStart, TurnStored, SessionIdle, Delivered)
# Worker group of the commands that the person runs.
_USER_COMMANDS = "user commands"
NOT_SENT = frozenset({"/new", "/sessions", "/resume", "/help", "/output", "/export", "/exit"})


class SessionTab(TabPane):
    """Tab of a session.

    Posts `Changed` for a new title or state, `Ordered` for a command of the application, and
    `Calls` for something that is worth a notification.
    """

    class Changed(Message):
        def __init__(self, tab: "SessionTab") -> None:
            super().__init__()
            self.tab = tab

    class Ordered(Message):
        def __init__(self, tab: "SessionTab", command: str, rest: str) -> None:
            super().__init__()
            self.tab = tab
            self.command = command
            self.rest = rest

    class Calls(Message):
        """Something in the tab is worth a notification."""

        def __init__(self, attention: AttentionNeeded) -> None:
            super().__init__()
            self.attention = attention

    def __init__(
        self,
        service: Service,
        start: TabStart,
        place: ConsolePlace,
        session: str | None,
        status: StatusLine,
        number: int,
    ) -> None:
        super().__init__(t("New"), id=f"tab-{number}")
        self.conversation = TabConversation(service, place, session, self._take)
        self.status = status
        self.place = place
        self._opens_worktrees = start.open_worktree is not None
        self._start = start
        self._is_due = False
        self._seen_entries = 0
        self._is_status_stale = False
        self._queued = 0
        self._has_failed = False
        # References for workers, which still run while the widgets are being removed.
        self.feed = Feed(self.conversation.content)
        self._search_line = Input(
            id="search", placeholder=t("search; Enter finds the next match, Escape closes")
        )
        self._search_line.display = False
        self._approval_panel = ApprovalPanel()
        self._offered = Static(id="offered")
        self._offered.display = False
        self._turn_choices: Sequence[TurnChoice] = ()
        self._choices_line = Static(id="plan", markup=False)
        self._choices_line.display = False
        self._letters = LoneLetter(self._choose_by_letter)
        self.input = self._message_input()
        self._status_line = Static(id="status", markup=False)

    def _message_input(self) -> MessageInput:
        pastes = Pastes()
        folder = self.place.options.cwd or ""
        history = ConsoleHistory(
            self._start.history_folder / "console_history", folder, pastes.recall, pastes.whole
        )
        commands = Completions((*CHAT_COMMANDS, *CONSOLE_COMMANDS), self.place.workdir)
        commands.service = self.conversation.service
        return MessageInput(history, commands, pastes, lambda: self.conversation.content.is_running)

    def compose(self) -> ComposeResult:
        yield self.feed
        yield self._search_line
        yield self._approval_panel
        yield self._choices_line
        yield self._offered
        yield self.input
        yield self._status_line

    def on_mount(self) -> None:
        self.run_worker(self._follow(), name="events of a session")
        self.run_worker(self.refresh_status(), name="status of a session")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # A pane activates its tab on focus. If the focus is reported late, this would move the
        # person away from the tab to which they have switched.
        event.prevent_default()

    def on_resize(self) -> None:
        self._approval_panel.fit(self.size.height)

    @property
    def folder(self) -> Path | None:
        """Folder of this machine that the tab works in; None for the default."""
        folder = self.place.options.folder
        return None if folder is None else Path(folder.path)

    @property
    def state(self) -> State:
        content = self.conversation.content
        if not self.conversation.is_connected:
            return "away"
        if content.approvals:
            return "asks"
        if content.is_running:
            return "runs"
        return "news" if self._seen_entries < len(content.entries) else "idle"

    @property
    def title_text(self) -> Text:
        name = escape_line(self.conversation.name) or t("New")
        if len(name) > _MAX_TITLE_CHARS:
            name = name[: _MAX_TITLE_CHARS - 1] + "…"
        return Text(f"{_MARKS[self.state]}{name}")

    @property
    def escape_words(self) -> str:
        """Current action of Escape; empty if it does nothing."""
        panel = self._approval_panel
        if panel.has_focus:
            return t("No")
        is_open = self._search_line.display or self._offered.display
        if panel.has_focus_within or is_open:
            return t("Close")
        is_at_work = self.state in ("asks", "runs") or self.conversation.content.has_goal
        is_busy = is_at_work or self._runs_command
        return t("Stop") if is_busy else ""

    def come_to_front(self) -> None:
        """Paint the tab and give it the focus."""
        self._show()
        self._focus()

    def scroll_pages(self, pages: int) -> None:
        """Scroll the open question, or the feed without a question."""
        panel = self._approval_panel
        view: Widget = panel.query_one(VerticalScroll) if panel.display else self.feed
        view.scroll_relative(y=pages * max(1, view.size.height - 2), animate=False)

    def open_search(self) -> None:
        search = self._search_line
        search.display = True
        search.focus()

    async def refresh_status(self) -> None:
        """Refresh the session status; without a connection, keep the last known status."""
        try:
            await self.status.refresh(self.conversation.service, self.conversation.lane)
            await self.conversation.look_up_name()
            self._offer_choices(await self.conversation.turn_choices())
        except ConnectionLost:
            return
        except KoreError as exc:
            self._complain(exc)
        self._show_status()
        self.post_message(self.Changed(self))

    async def on_message_input_sent(self, event: MessageInput.Sent) -> None:
        event.stop()
        text = event.text.strip() if event.text.startswith("/") else event.text
        command, _, rest = text.partition(" ")
        begin, shell_line = self.place.begin_command, shell_command_in(text)
        if begin is not None and shell_line is not None:
            self.say(f"! {shell_line}", "bold")
            self.run_worker(self._run(begin(shell_line, self._show_output)), group=_USER_COMMANDS)
        elif (choice := choice_of(self._turn_choices, text)) is not None:
            self._choose(choice)
        elif command == "/paste":
            self.run_worker(self._paste(), name="clipboard")
        elif (
            command in NOT_SENT
            or text in ("/quit", "exit", "quit")
            or (self._opens_worktrees and named_worktree(text))
        ):
            self.post_message(self.Ordered(self, command, rest.strip()))
        elif (suggestion := misspelt(text)) is not None:
            self.say(suggestion, "yellow")
        else:
            self._queued += 1
            self._show_status()
            self.run_worker(self._say(text, event.pasted, event.queue), name="message to a session")

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        if event.text_area is self.input:
            self._letters.note(self.input.text)

    def _offer_choices(self, choices: Sequence[TurnChoice]) -> None:
        """Show the choices after a turn above the input; an empty sequence hides them."""
        if choices == self._turn_choices:
            return
        self._turn_choices = choices
        self._choices_line.update(choices_line(choices))
        self._choices_line.display = bool(choices)
        self._letters.offer([choice.key for choice in choices], self.input.text)

    def _choose_by_letter(self) -> None:
        choice = choice_of(self._turn_choices, self.input.text)
        if choice is not None and self.input.has_focus:
            self.input.clear()
            self._choose(choice)

    def _choose(self, choice: TurnChoice) -> None:
        self._offer_choices(())
        if choice.is_fresh:
            self.post_message(self.Ordered(self, choice.text, ""))
        else:
            self.run_worker(self.choose(choice), name="choice after a turn")

    async def choose(self, choice: TurnChoice) -> None:
        """Send a choice after a turn; `refresh_status` shows the result."""
        try:
            await self.conversation.choose(choice)
        except KoreError as exc:
            self._complain(exc)
        self.status.use_options(self.conversation.options)
        await self.refresh_status()

    def say(self, text: str, style: str = "dim") -> None:
        self.conversation.content.say(text, style)
        self.feed.go_to_end()
        self._note_news()

    def on_message_input_offered(self, event: MessageInput.Offered) -> None:
        event.stop()
        offered = self._offered
        offered.display = bool(event.choices)
        offered.update(_offer(event.choices, event.at))
        self.post_message(self.Changed(self))

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            self._search(event.value, backwards=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "search":
            self._search(event.value, backwards=True)

    def on_approval_panel_typed(self, event: ApprovalPanel.Typed) -> None:
        event.stop()
        self.input.insert(event.character)

    async def on_approval_panel_reply_given(self, event: ApprovalPanel.ReplyGiven) -> None:
        event.stop()
        self.run_worker(self._reply(event), name="answer to a question")

    def close_search(self) -> bool:
        """Close the search; return False if it was not open."""
        search = self._search_line
        was_open, search.display = search.display, False
        if was_open:
            self.feed.needle = ""
            self.feed.go_to_end()
            self._focus()
        return was_open

    async def _follow(self) -> None:
        try:
            await self.conversation.follow()
        except KoreError as exc:
            self._complain(exc)

    async def _say(self, text: str, pasted: list[tuple[int, int]], queue: QueueMode) -> None:
        self.feed.go_to_end()
        try:
            await self.conversation.say(text, pasted, queue)
        except KoreError as exc:
            self._complain(exc)
            # Put a rejected message back into the input.
            if not self.input.text:
                self.input.text = text
        finally:
            self._queued -= 1
        self.status.use_options(self.conversation.options)
        await self.refresh_status()

    async def _run(self, command: "UserCommand") -> None:
        await self.conversation.run_user_command(command)
        self._note_news()

    async def _paste(self) -> None:
        try:
            self.input.insert(await pasted_input(self.input.pastes))
        except KoreError as exc:
            self._complain(exc)

    def _show_output(self, text: str) -> None:
        self.conversation.content.show_output(text)
        self._note_news()

    def stop_command(self) -> bool:
        """Kill the command that the person runs with `!`; return False if none runs."""
        return bool(self.workers.cancel_group(self, _USER_COMMANDS))

    @property
    def _runs_command(self) -> bool:
        own = (worker for worker in self.workers if worker.node is self)
        return any(worker.group == _USER_COMMANDS and not worker.is_finished for worker in own)

    async def _reply(self, event: ApprovalPanel.ReplyGiven) -> None:
        try:
            if not await self.conversation.answer(event.approval, event.reply):
                self.say(t("This question has expired or was answered already."))
        except KoreError as exc:
            self._complain(exc)

    def _complain(self, error: KoreError) -> None:
        self.say(complaint(error), "red")

    def _search(self, words: str, *, backwards: bool) -> None:
        is_there = self.feed.find(words, backwards=backwards)
        self._search_line.set_class(bool(words) and not is_there, "-none")

    def _take(self, event: SessionEvent | None) -> None:
        if event is not None:
            self.status.take(event)
            if isinstance(event, AttentionNeeded):
                self.post_message(self.Calls(event))
        # The visible state is not enough: a quick turn can begin and end between two repaints.
        self._is_status_stale |= isinstance(event, _STATUS_EVENTS)
        self._note_news()

    def _note_news(self) -> None:
        if not self._is_due and self.is_mounted:
            self._is_due = True
            self.set_timer(_FRAME_INTERVAL_S, self._show)

    def _show(self) -> None:
        """Paint the new content. An inactive tab is painted when it becomes active."""
        self._is_due = False
        content = self.conversation.content
        if self._is_status_stale:
            self._is_status_stale = False
            self.run_worker(self.refresh_status(), name="status of a session")
        if self.is_in_front:
            self._seen_entries = len(content.entries)
            self.feed.show_news()
            self._show_question()
            self._show_status()
        self.post_message(self.Changed(self))

    @property
    def is_in_front(self) -> bool:
        return self.display

    def _show_question(self) -> None:
        panel = self._approval_panel
        had_focus = panel.has_focus_within or panel.has_focus
        before = panel.approval
        panel.show_first(self.conversation.content.approvals)
        if panel.approval is not before and (panel.approval is not None or had_focus):
            self._focus()

    def _focus(self) -> None:
        panel = self._approval_panel
        if panel.display:
            panel.focus()
            panel.arm()
        else:
            self.input.focus()

    def _show_status(self) -> None:
        words = {
            "away": t("Kore is not reachable; reconnecting …"),
            "runs": t("working; Escape stops"),
        }
        state = words.get(self.state, "")
        line = self.status.line(max(20, self.size.width - len(state) - 3), self._queued)
        self._status_line.update(f"{state} · {line}" if state else line)


def _offer(choices: Sequence[Completion], at: int) -> Text:
    lines = Text()
    for n, choice in enumerate(choices):
        style = "reverse" if n == at else ""
        lines.append(f" {escape_line(choice.display_text)} ", style)
        lines.append(f" {escape_line(choice.display_meta_text)}\n", "dim")
    lines.right_crop(1)
    return lines
