"""The plan that a turn in plan mode ended with, until a person chooses what happens with it."""

from agent.types import Message
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import choices, session_folders, sessions


def offer(tx: Transaction, session: str) -> None:
    """Offer the last message of the session as a plan; any later message ends the offer."""
    choices.put(tx, session, choices.PLAN, str(sessions.count_messages(tx, session)))


def close(tx: Transaction, session: str) -> None:
    choices.put(tx, session, choices.PLAN, None)


def find(tx: Transaction, session: str) -> Message | None:
    """Return the plan that is offered, or None."""
    number = choices.load(tx, session).get(choices.PLAN)
    if number is None or int(number) != sessions.count_messages(tx, session):
        return None
    rows = sessions.load_after(tx, session, int(number) - 1, 1)
    return rows[0][2] if rows else None


def hand_over(tx: Transaction, session: str, successor: str) -> None:
    """Give the choices, the folder and the taint of a session to the one that carries out its plan.

    Permissions "for this session" do not apply there.
    """
    for choice in choices.CHOICES:
        if choice not in (choices.PLAN, choices.SKILL):
            choices.put(tx, successor, choice, choices.load(tx, session).get(choice))
    session_folders.put(tx, successor, session_folders.of_session(tx, session))
    sessions.add_taint(tx, successor, sessions.taint_of(tx, session))
