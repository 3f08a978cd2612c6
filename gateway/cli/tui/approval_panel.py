"""Panel for the approval questions of a session: the exact action and the keys that answer it."""

from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from agent.approvals import QuestionOption
from agent.events import ApprovalAsked
from agent.i18n import plural, t
from gateway.cli.console.approvals.key_choice import KeyChoice
from gateway.cli.console.input.lone_letter import QUIET_INTERVAL_S
from gateway.cli.console.output import renderables
from gateway.cli.console.output.approval_text import (
    choices_for,
    choices_text,
    time_left,
    words_hint,
)
from gateway.core.approval import ApprovalReply

_SCROLLS = ("up", "down", "pageup", "pagedown", "home", "end")
_KEYS = {"enter": "\r", "escape": "\x1b", "ctrl+c": "\x03"}

# Maximum share of the tab's rows. The feed uses the rows above the panel; the input and the status
# line are below it.
_SHARE = 0.6
_ROWS_BELOW = 4
# Rows inside the panel for its border, the keys and the text input.
_ROWS_AROUND = 5


class ApprovalPanel(Vertical, can_focus=True):
    """Panel with the first open approval question (`show_first`).

    Posts `ReplyGiven` with the person's decision and `Typed` with text for the message input. Until
    the end of the question has been on the screen, a key can only deny.
    """

    class ReplyGiven(Message):
        def __init__(self, approval: ApprovalAsked, reply: ApprovalReply) -> None:
            super().__init__()
            self.approval = approval
            self.reply = reply

    class Typed(Message):
        def __init__(self, character: str) -> None:
            super().__init__()
            self.character = character

    def __init__(self) -> None:
        super().__init__()
        self._approval: ApprovalAsked | None = None
        self._choice = KeyChoice(self._decide, self._after_keys)
        self._open_count = 0
        self._is_laid_out = False
        self._has_shown_end = False
        self.display = False

    @property
    def approval(self) -> ApprovalAsked | None:
        return self._approval

    @property
    def is_armed(self) -> bool:
        """True while an approval is open and key presses count."""
        return self._approval is not None and self._choice.is_armed()

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(id="question")
        yield Static(id="choices")
        words = Input(id="words")
        words.display = False
        yield words

    def on_mount(self) -> None:
        view = self.query_one(VerticalScroll)
        self.watch(view, "scroll_y", self._show_choices, init=False)

    def show_first(self, approvals: list[ApprovalAsked]) -> None:
        """Show the first question; an empty list closes the panel."""
        first = approvals[0] if approvals else None
        self._open_count = len(approvals)
        if first is not None and self._approval is not None and first.nonce == self._approval.nonce:
            return
        self._approval = first
        self._choice.take_back()
        self.display = first is not None
        if first is None:
            return
        self._is_laid_out = self._has_shown_end = False
        self.query_one("#question", Static).update(renderables.question(first))
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._choice.choices = choices_for(first)
        self._take_words(False)

    def fit(self, rows: int) -> None:
        """Limit the height for a tab of `rows` rows; the question scrolls, the keys do not."""
        most = min(round(rows * _SHARE), rows - _ROWS_BELOW)
        self.query_one(VerticalScroll).styles.max_height = max(1, most - _ROWS_AROUND)

    def arm(self) -> None:
        """Ignore keys typed so far, because they were meant for something else.

        The pause before keys count begins when the question is on the screen.
        """
        self._choice.hold()
        self._show_choices()
        self.call_after_refresh(self._begin_pause)

    async def on_key(self, event: events.Key) -> None:
        words = self.query_one("#words", Input)
        if words.display:
            if event.key == "escape":
                event.stop()
                self._take_words(False)
            return
        if event.key in _SCROLLS:
            event.stop()
            self._scroll(event.key)
            return
        key = _KEYS.get(event.key) or event.character or ""
        if not key:
            return
        if self._is_withheld(key):
            event.stop()
            self._scroll("pagedown")
        elif self._choice.press(key, event.time):
            event.stop()
        elif event.is_printable and event.character:
            # A key that was still pending was the beginning of a word.
            event.stop()
            self.post_message(self.Typed(self._choice.take_back() + event.character))
            self.arm()

    def _scroll(self, key: str) -> None:
        view = self.query_one(VerticalScroll)
        match key:
            case "home":
                view.scroll_home(animate=False)
            case "end":
                view.scroll_end(animate=False)
            case _:
                rows = 1 if key in ("up", "down") else max(1, view.size.height - 1)
                direction = 1 if key in ("down", "pagedown") else -1
                view.scroll_relative(y=direction * rows, animate=False)
        self.call_after_refresh(self._show_choices)

    def _is_withheld(self, key: str) -> bool:
        """Return whether a key would allow a question whose end has not been on the screen."""
        if self._is_seen() or not self._choice.is_armed():
            return False
        choices = [choice for choice in self._choice.choices if choice.key == key.lower()]
        return any(choice.answer != "deny" for choice in choices)

    def _is_seen(self) -> bool:
        """Return whether the end of the question has been on the screen."""
        view, question = self.query_one(VerticalScroll), self.query_one("#question", Static)
        if self._is_laid_out and question.size.width:
            # The widget's height is out of date: it comes from the previous layout.
            rows = question.get_content_height(view.size, self.screen.size, question.size.width)
            if view.scroll_offset.y + view.size.height >= rows:
                self._has_shown_end = True
        return self._has_shown_end

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        assert self._approval is not None
        if self._approval.request.server_question is None:
            self._settle(ApprovalReply("deny", event.value))
        elif event.value:
            self._settle(ApprovalReply("once", event.value))

    def _decide(self, choice: QuestionOption) -> None:
        if choice.takes_words:
            self._take_words(True)
        else:
            self._settle(ApprovalReply(choice.answer, choice.words, choice.scope))

    def _settle(self, reply: ApprovalReply) -> None:
        if self._approval is not None:
            self.post_message(self.ReplyGiven(self._approval, reply))

    def _take_words(self, takes: bool) -> None:
        assert self._approval is not None
        words = self.query_one("#words", Input)
        query = self._approval.request.server_question
        words.display, words.value = takes, ""
        words.password = query is not None and query.is_secret
        words.placeholder = words_hint(self._approval)
        if takes:
            words.focus()
        else:
            if self.display and self.screen.focused is words:
                self.focus()
            self.arm()

    def _after_keys(self, call: Callable[[], None], rounds: int = 2) -> None:
        """Run `call` after all pending keys, which a busy program processes late.

        Keys pass through the queue of the app, then the queue of this widget. A key that has been
        read but is in neither queue yet arrives before the second round.
        """
        if rounds:
            self.app.call_later(self.call_later, self._after_keys, call, rounds - 1)
        else:
            call()

    def _begin_pause(self) -> None:
        self._is_laid_out = True
        self._choice.arm()
        self._show_choices()
        self.set_timer(QUIET_INTERVAL_S + 0.01, self._show_choices)

    def _show_choices(self) -> None:
        if self._approval is None:
            return
        text = Text(f"  {choices_text(self._approval)}")
        if not self._is_seen():
            text = Text(f"  {t('↓ more: PgDn shows the rest, then you can allow it')}")
            text.append(f"  {choices_text(self._approval, only_refusals=True)}")
        text.append(time_left(self._approval.expires_s), "dim")
        if self._open_count > 1:
            more = plural(self._open_count - 1, "{n} more question", "{n} more questions")
            text.append(f"  · {more}", "dim")
        text.stylize("bold" if self._choice.is_armed() else "dim")
        self.query_one("#choices", Static).update(text)
