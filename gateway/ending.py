"""How a turn ended, and what the history and the chat are told of it."""

from dataclasses import dataclass

from agent import events
from agent.prompts import load
from agent.types import Message, Result, assistant


@dataclass(slots=True)
class Ending:
    """What the events of a turn came to. `dropped` messages have left the window."""

    result: Result | None = None
    error: events.Error | None = None
    dropped: int = 0

    def note(self, event: events.Event) -> None:
        match event:
            case events.Done(result):
                self.result = result
            case events.Error():
                self.error = event
            case events.Compacted(dropped=dropped):
                self.dropped = dropped


def closing(ending: Ending) -> list[Message]:
    """What the history says of a turn that the model did not end itself."""
    assert ending.result is not None, "a turn ends with Done"
    last = ending.result.messages[-1:]
    said_something = bool(last) and last[0].role == "assistant"
    if ending.result.stopped == "cancelled" and not said_something:
        return [assistant(load("stopped"))]
    if ending.error is not None:
        return [assistant(load("no_answer"))]
    return []


def answer(ending: Ending) -> str:
    """What the chat is told."""
    assert ending.result is not None, "a turn ends with Done"
    result, error = ending.result, ending.error
    if error is not None:
        sentence = f"⚠️ I could not answer: {error.message} ({error.code})"
        if error.hint:
            sentence += f"\n{error.hint}"
        return f"{_said(result)}{sentence}"
    if result.stopped == "cancelled":
        return f"{_said(result)}⏹ Stopped."
    return result.text


def _said(result: Result) -> str:
    said = [m.text.strip() for m in result.messages if m.role == "assistant"]
    return "".join(f"{text}\n\n" for text in said if text)
