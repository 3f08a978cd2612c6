"""Outcome of a turn, and its wording for the history, the chat and a sub-agent's caller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent import events
from agent.i18n import t
from agent.prompts import load_prompt
from agent.providers.usage import UsageTotals
from agent.subagents.profile import final_reply
from agent.types import Message, Result, Taint, assistant
from gateway.core.errors import WITHHELD
from gateway.core.markdown import close_code_block
from gateway.core.messages import CONSOLE, OutboundPart
from gateway.core.token_routes import API
from gateway.store.repositories.execution.subagent_tasks import TaskOutcome

# Channels that show notices immediately.
SCREENS = frozenset({CONSOLE, API})
_QUESTION_MARKS = ("?", "？", "؟")


@dataclass(slots=True)
class TurnOutcome:
    """Result of a turn, collected from its events.

    `dropped_messages` is the number of messages that left the window, `denied_summary` describes
    missing approvals, and `trace` lists the actions. `preview_parts` are the messages of the
    preview. Errors are withheld unless only the owner reads the answer (`is_owner`), because they
    name addresses, files and accounts.
    """

    result: Result | None = None
    error: events.Error | None = None
    dropped_messages: int = 0
    spent: UsageTotals = field(default_factory=UsageTotals)
    denied_summary: str = ""
    trace: str = ""
    preview_parts: Mapping[int, OutboundPart] = field(default_factory=dict)
    is_owner: bool = True
    # In chats, the `warnings` follow the answer.
    channel: str = CONSOLE
    warnings: list[str] = field(default_factory=list)

    @property
    def stopped(self) -> str | None:
        """Reason why the turn ended early."""
        return self.result.stopped if self.result is not None else None

    def observe(self, event: events.Event) -> None:
        match event:
            case events.Done(result):
                self.result = result
            case events.Error():
                self.error = event
            case events.Compacted(dropped=dropped):
                self.dropped_messages = dropped
            case events.Notice(below=text) if self.channel not in SCREENS:
                if text and text not in self.warnings:
                    self.warnings.append(text)

    def public_form(self, event: events.Event) -> events.Event:
        """Return the event without details that readers of the answer must not see."""
        match event:
            case events.Error(code=code) if not self.is_owner:
                return events.Error(code, t(WITHHELD), None)
            case events.Retry() if not self.is_owner:
                return replace(event, reason=t("the model is asked again"))
        return event


def closing_messages(outcome: TurnOutcome) -> list[Message]:
    """Return the messages that complete a turn if the model did not."""
    assert outcome.result is not None, "a turn ends with Done"
    last = outcome.result.messages[-1:]
    said_something = bool(last) and last[0].role == "assistant"
    if outcome.result.stopped == "cancelled" and not said_something:
        return [assistant(load_prompt("stopped"))]
    if outcome.error is not None:
        return [assistant(load_prompt("no_answer"))]
    return []


def answer(outcome: TurnOutcome, clean: Callable[[str], str] = lambda text: text) -> str:
    """Return the answer for the chat.

    `clean` defuses links in Kore's own text; those in the model's text are already defused.
    """
    text = _answer(outcome, clean)
    warnings = (f"⚠️ {text}" for text in outcome.warnings)
    below = [clean(text) for text in (outcome.denied_summary, *warnings, outcome.trace) if text]
    return "\n\n".join(filter(None, [close_code_block(text) if below else text, *below]))


def is_whole_answer(outcome: TurnOutcome) -> bool:
    """Return whether the turn succeeded with a complete answer."""
    result = outcome.result
    if result is None or outcome.error is not None or result.stopped is not None:
        return False
    return result.signal in (None, "COMPLETE") and bool(result.text.strip())


def ends_with_question(outcome: TurnOutcome) -> bool:
    """Return whether the answer ends with a question to the person."""
    text = outcome.result.text if outcome.result is not None else ""
    return text.rstrip().rstrip("*_`").endswith(_QUESTION_MARKS)


def _answer(outcome: TurnOutcome, clean: Callable[[str], str]) -> str:
    assert outcome.result is not None, "a turn ends with Done"
    result, error = outcome.result, outcome.error
    if error is not None and not outcome.is_owner:
        return f"{_assistant_text(result)}⚠️ {t(WITHHELD)}"
    if error is not None:
        sentence = t("⚠️ I could not answer: {why} ({code})", why=error.message, code=error.code)
        if error.hint:
            sentence += f"\n{error.hint}"
        return f"{_assistant_text(result)}{clean(sentence)}"
    if result.stopped == "cancelled":
        return f"{_assistant_text(result)}{t('⏹ Stopped.')}"
    return result.text


def _assistant_text(result: Result) -> str:
    texts = [m.text.strip() for m in result.messages if m.role == "assistant"]
    return "".join(f"{close_code_block(text)}\n\n" for text in texts if text)


def task_outcome(outcome: TurnOutcome, taint: frozenset[Taint]) -> TaskOutcome:
    """Return the outcome of a sub-agent's task: its last reply, or the reason for the failure."""
    assert outcome.result is not None, "a turn ends with Done"
    result = outcome.result
    if result.stopped == "cancelled":
        return TaskOutcome("stopped", answer(outcome), taint)
    if outcome.error is not None or result.stopped is not None:
        return TaskOutcome("failed", answer(outcome), taint)
    return TaskOutcome("done", final_reply(result), taint)


def earlier_texts(messages: Sequence[Message]) -> list[str]:
    """Return the replies among the `messages` that the turn added before a restart."""
    texts = (message.text.strip() for message in messages if message.role == "assistant")
    return [text for text in texts if text]


def whole_rounds(dropped: int, messages: list[Message]) -> int:
    """Return the number of messages to drop from the stored window, 0 for a cut within a round.

    The stored window begins with a user message. A cut within a round is not stored; the next turn
    makes it again.
    """
    if dropped < len(messages) and messages[dropped].role == "user":
        return dropped
    return 0


def root_cause(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the root cause, which nested task groups may wrap several times."""
    cause: BaseException = several
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause


def failure(outcome: TurnOutcome) -> str:
    """Return the reason for a failure as a sentence, or '' if the turn did not fail."""
    return outcome.error.message if outcome.error is not None else ""
