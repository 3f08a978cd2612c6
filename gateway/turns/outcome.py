"""How a turn ended, worded for its history, for the chat, and for a sub-agent's caller."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent import events
from agent.i18n import t
from agent.prompts import load_prompt
from agent.types import Message, Result, Taint, assistant
from gateway.core.errors import WITHHELD
from gateway.core.markdown import close_code_block
from gateway.core.messages import CONSOLE, OutboundPart
from gateway.core.token_routes import API
from gateway.store.repositories.execution.subagent_tasks import TaskOutcome

# Channels that show notices when they come.
_SCREENS = frozenset({CONSOLE, API})


@dataclass(slots=True)
class TurnOutcome:
    """What the events of a turn came to. `dropped_messages` have left the window,
    `denied_summary` says what a person would have had to allow, `trace` what was done.
    `preview_parts` are what the messages of its preview show. Unless the owner alone reads the
    answer (`is_owner`), it does not say why there is none: errors name addresses, files and
    accounts."""

    result: Result | None = None
    error: events.Error | None = None
    dropped_messages: int = 0
    denied_summary: str = ""
    trace: str = ""
    preview_parts: Mapping[int, OutboundPart] = field(default_factory=dict)
    is_owner: bool = True
    # A chat gets `warnings` below the answer.
    channel: str = CONSOLE
    warnings: list[str] = field(default_factory=list)

    @property
    def stopped(self) -> str | None:
        """What ended the turn before the model was done."""
        return self.result.stopped if self.result is not None else None

    def observe(self, event: events.Event) -> None:
        match event:
            case events.Done(result):
                self.result = result
            case events.Error():
                self.error = event
            case events.Compacted(dropped=dropped):
                self.dropped_messages = dropped
            case events.Notice(below=text) if self.channel not in _SCREENS:
                if text and text not in self.warnings:
                    self.warnings.append(text)

    def public_form(self, event: events.Event) -> events.Event:
        """Return what of an event may be shown to those who read the answer."""
        match event:
            case events.Error(code=code) if not self.is_owner:
                return events.Error(code, t(WITHHELD), None)
            case events.Retry() if not self.is_owner:
                return replace(event, reason=t("the model is asked again"))
        return event


def closing_messages(ending: TurnOutcome) -> list[Message]:
    """What the history says of a turn that the model did not end itself."""
    assert ending.result is not None, "a turn ends with Done"
    last = ending.result.messages[-1:]
    said_something = bool(last) and last[0].role == "assistant"
    if ending.result.stopped == "cancelled" and not said_something:
        return [assistant(load_prompt("stopped"))]
    if ending.error is not None:
        return [assistant(load_prompt("no_answer"))]
    return []


def answer(ending: TurnOutcome, clean: Callable[[str], str] = lambda text: text) -> str:
    """What the chat is told. `clean` defuses links in what is not the model's words, whose links
    the turn has defused."""
    text = _answer(ending, clean)
    warnings = (f"⚠️ {text}" for text in ending.warnings)
    below = [clean(text) for text in (ending.denied_summary, *warnings, ending.trace) if text]
    return "\n\n".join(filter(None, [close_code_block(text) if below else text, *below]))


def _answer(ending: TurnOutcome, clean: Callable[[str], str]) -> str:
    assert ending.result is not None, "a turn ends with Done"
    result, error = ending.result, ending.error
    if error is not None and not ending.is_owner:
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


def outcome(ending: TurnOutcome, taint: frozenset[Taint]) -> TaskOutcome:
    """What a sub-agent came to: its last words, or why there are none."""
    assert ending.result is not None, "a turn ends with Done"
    result = ending.result
    if result.stopped == "cancelled":
        return TaskOutcome("stopped", answer(ending), taint)
    if ending.error is not None or result.stopped is not None:
        return TaskOutcome("failed", answer(ending), taint)
    texts = [m.text.strip() for m in result.messages if m.role == "assistant" and m.text.strip()]
    return TaskOutcome("done", texts[-1] if texts else result.text, taint)


def earlier_texts(messages: Sequence[Message], begun: int) -> list[str]:
    """What this turn said before it was put down: it has added the last `begun` messages."""
    since = messages[max(len(messages) - begun, 0) :]
    texts = (message.text.strip() for message in since if message.role == "assistant")
    return [text for text in texts if text]


def whole_rounds(dropped: int, messages: list[Message]) -> int:
    """The stored window begins with a user message; a cut inside a round is made anew instead."""
    if dropped < len(messages) and messages[dropped].role == "user":
        return dropped
    return 0


def root_cause(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The cause: task groups inside each other wrap it more than once."""
    cause: BaseException = several
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause


def failure(ending: TurnOutcome) -> str:
    """Why a turn came to nothing, in a sentence; '' when it did come to something."""
    return ending.error.message if ending.error is not None else ""
