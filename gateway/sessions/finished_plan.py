"""Plan at the end of a turn in plan mode, offered until a person makes a choice."""

from collections.abc import Sequence

from agent.types import Message
from gateway.core.turn_choice import PLAN_CHOICES, TurnChoice
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices, session_folders, sessions


def offer(tx: Transaction, session: str, offered: Sequence[TurnChoice]) -> None:
    """Offer these choices for the last message of the session; any later message ends the offer."""
    words = (str(sessions.count_messages(tx, session)), *(choice.key for choice in offered))
    choices.put(tx, session, choices.PLAN, " ".join(words))


def close(tx: Transaction, session: str) -> None:
    choices.put(tx, session, choices.PLAN, None)


def find(tx: Transaction, session: str) -> Message | None:
    """Return the plan that is offered, or None."""
    offered = _load(tx, session)
    rows = sessions.load_after(tx, session, offered[0] - 1, 1) if offered is not None else ()
    return rows[0][2] if rows else None


def choices_of(tx: Transaction, session: str) -> tuple[TurnChoice, ...]:
    """Return the choices that are offered to the person who requested the plan."""
    offered = _load(tx, session)
    keys = offered[1] if offered is not None else ()
    return tuple(choice for choice in PLAN_CHOICES if choice.key in keys)


def _load(tx: Transaction, session: str) -> tuple[int, Sequence[str]] | None:
    """Return the number of the message with the plan and the offered keys; None without a plan."""
    stored = choices.load(tx, session).get(choices.PLAN)
    if stored is None:
        return None
    number, *keys = stored.split()
    return (int(number), keys) if int(number) == sessions.count_messages(tx, session) else None


def hand_over(tx: Transaction, session: str, successor: str) -> None:
    """Copy choices, folder and taint of a session to the session that carries out its plan.

    Permissions "for this session" do not apply there.
    """
    for choice in choices.CHOICES:
        if choice not in (choices.PLAN, choices.SKILL):
            choices.put(tx, successor, choice, choices.load(tx, session).get(choice))
    session_folders.put(tx, successor, session_folders.of_session(tx, session))
    sessions.add_taint(tx, successor, sessions.taint_of(tx, session))
