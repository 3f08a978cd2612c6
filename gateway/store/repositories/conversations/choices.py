"""Choices of people for a session: rows of the table `session_choice`.

The permission mode is not among them: it is sealed with the taint (`session_marks`).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from agent.events import Event, ThinkingDelta, ThinkingEnd
from agent.providers.effort import EFFORTS
from agent.records import frozen
from agent.types import ReasoningEffort
from gateway.core.messages import QueueMode
from gateway.core.records import Trace
from gateway.store.port import Transaction

ValueT = TypeVar("ValueT", bound=str)


class Choice(Generic[ValueT]):
    """Definition of a choice.

    Without `values`, any text may be stored; a choice that `carries_over` also applies after /new.
    """

    def __init__(self, name: str, *values: ValueT, carries_over: bool = False) -> None:
        self.name = name
        self.values = values
        self.carries_over = carries_over

    def accepts(self, value: str) -> bool:
        return not self.values or value in self.values


MODEL = Choice[str]("model")
AGENT = Choice[str]("agent")
STYLE = Choice[str]("style")
QUEUE: Choice[QueueMode] = Choice("queue", *get_args(QueueMode), carries_over=True)
TRACE: Choice[Trace] = Choice("trace", *get_args(Trace), carries_over=True)
EFFORT: Choice[ReasoningEffort] = Choice("effort", *EFFORTS)
THINKING_DISPLAY = Choice[Literal["shown", "hidden"]]("thinking_display", "shown", "hidden")
# Number of the message with the plan that waits for a person's choice, and the offered keys.
PLAN = Choice[str]("plan")
# Number of the message after which a skill is offered; 0 once a person has chosen.
SKILL = Choice[str]("skill")
CHOICES: tuple[Choice[Any], ...] = (
    MODEL, AGENT, STYLE, QUEUE, TRACE, EFFORT, THINKING_DISPLAY, PLAN, SKILL,
)  # fmt: skip


@frozen
class StoredChoices:
    """Stored choices of a session, by name."""

    stored: Mapping[str, str] = field(default_factory=dict)

    def get(self, choice: Choice[ValueT]) -> ValueT | None:
        """Return the chosen value; None without a choice."""
        value = self.stored.get(choice.name)
        return cast("ValueT", value) if value is not None and choice.accepts(value) else None

    @property
    def shows_thinking(self) -> bool:
        return self.get(THINKING_DISPLAY) != "hidden"

    def hides(self, event: Event) -> bool:
        """Return whether this event is withheld from screens."""
        return isinstance(event, ThinkingDelta | ThinkingEnd) and not self.shows_thinking


def load(tx: Transaction, session: str) -> StoredChoices:
    """Return the choices of a session."""
    rows = tx.all("SELECT name, value FROM session_choice WHERE session = ?", (session,))
    return StoredChoices(dict(rows))


def put(tx: Transaction, session: str, choice: Choice[ValueT], value: ValueT | None) -> None:
    """Store a choice; None removes it."""
    if value is None:
        tx.run("DELETE FROM session_choice WHERE session = ? AND name = ?", (session, choice.name))
        return
    tx.run(
        "INSERT INTO session_choice (session, name, value) VALUES (?, ?, ?)"
        " ON CONFLICT (session, name) DO UPDATE SET value = excluded.value",
        (session, choice.name, value),
    )


def copy(tx: Transaction, session: str, fork: str) -> None:
    """Copy all choices of a session to its fork."""
    rows = tx.all("SELECT name, value FROM session_choice WHERE session = ?", (session,))
    tx.many(
        "INSERT INTO session_choice (session, name, value) VALUES (?, ?, ?)",
        [(fork, name, value) for name, value in rows],
    )


def carry_over(tx: Transaction, old: str, new: str) -> None:
    """Copy the choices that also apply after /new to the next session of a chat."""
    choices = load(tx, old)
    for choice in CHOICES:
        if choice.carries_over:
            put(tx, new, choice, choices.get(choice))
