"""Queue of approval questions on the screen: one at a time, answered by keys."""

from collections import deque
from collections.abc import Callable

from agent.approvals import QuestionOption
from agent.events import ApprovalAsked
from gateway.cli.console.approvals.key_choice import KeyChoice
from gateway.cli.console.output.approval_text import choices_for
from gateway.cli.console.output.turn_view import TurnView
from gateway.core.approval import ApprovalReply

Reply = Callable[[ApprovalAsked, ApprovalReply], None]
_ENTER = ("\r", "\n")


class ApprovalQueue:
    """Queue of open approval questions.

    Call `put` for a new question and `close` for a settled one; `reply` is called with the person's
    answer. While it `takes_words`, the input line is the text for the model after a refusal, or the
    answer to the server's question.
    """

    def __init__(self, view: TurnView, reply: Reply) -> None:
        self._view = view
        self._reply = reply
        self._open: deque[ApprovalAsked] = deque()
        self._withdrawn: set[str] = set()
        self._choice = KeyChoice(self._decide)
        self.takes_words = False

    def __bool__(self) -> bool:
        return bool(self._open)

    def put(self, approval: ApprovalAsked) -> None:
        self._open.append(approval)
        if len(self._open) == 1:
            self._ask()

    def close(self, nonce: str) -> bool:
        """Remove an answered question; return whether its answer still has to be shown."""
        self._next(nonce)
        was_withdrawn = nonce in self._withdrawn
        self._withdrawn.discard(nonce)
        return not was_withdrawn

    def withdraw(self) -> None:
        """Withdraw all questions because of a stop, which reports this on its own."""
        for approval in list(self._open):
            self._withdrawn.add(approval.nonce)
            self._next(approval.nonce)

    def press(self, key: str) -> bool:
        """Process a key while a question is open; keys during the pause do not count."""
        if not self.takes_words:
            return bool(self._open) and self._choice.press(key)
        if key in _ENTER:
            self.say("")
        elif key == "\x1b":
            self.ask_again()
        else:
            return False
        return True

    def say(self, words: str) -> None:
        """Deny the first question with this text for the model, or answer the server."""
        if self._open[0].request.server_question is None:
            self._settle(ApprovalReply("deny", words))
        elif words:
            self._settle(ApprovalReply("once", words))
        else:
            self.ask_again()

    def ask_again(self) -> None:
        """Discard the text and let the person choose again."""
        self._take_words(False)
        self._choice.arm()

    def arm(self) -> None:
        self._choice.arm()

    def take_back(self) -> str:
        return self._choice.take_back()

    def _decide(self, choice: QuestionOption) -> None:
        if choice.takes_words:
            self._take_words(True)
        else:
            self._settle(ApprovalReply(choice.answer, choice.words, choice.scope))

    def _settle(self, reply: ApprovalReply) -> None:
        approval = self._open[0]
        self._reply(approval, reply)
        self._next(approval.nonce)

    def _take_words(self, takes: bool) -> None:
        self.takes_words = takes
        self._view.ask_words(takes)

    def _ask(self) -> None:
        self._choice.choices = choices_for(self._open[0])
        self._view.ask(self._open[0], self._choice.is_armed)
        self._choice.arm()

    def _next(self, nonce: str) -> None:
        first = self._open[0].nonce if self._open else None
        self._open = deque(approval for approval in self._open if approval.nonce != nonce)
        if first == nonce:
            self.takes_words = False
            self._view.footer.settle()
            self._choice.take_back()
            if self._open:
                self._ask()
