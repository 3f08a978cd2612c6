"""Offer to save the procedure of a long turn as a skill, until a person chooses or writes."""

from agent.context.active_skills import SKILL_TOOL
from gateway.store.port import Transaction
from gateway.store.repositories import goals, preferences
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.execution import turns

# The procedure of a shorter turn is seldom useful as a skill.
MIN_CALLS = 15
MIN_DURATION_S = 180.0
_STATE = "skill_offers"
_NEVER = "never"


def is_due(tx: Transaction, session: str, turn: int, now: float, min_duration_s: float) -> bool:
    """Return whether to offer the procedure of a successful turn.

    Time in which the turn waited for answers does not count. It is offered once per conversation,
    and not if the turn followed a skill or worked towards a goal, which other turns follow.
    """
    if preferences.get_state(tx, _STATE) == _NEVER:
        return False
    is_offered = choices.load(tx, session).get(choices.SKILL) is not None
    if is_offered or goals.find(tx, session) is not None:
        return False
    calls = turns.calls_by_tool(tx, turn)
    is_long = sum(calls.values()) >= MIN_CALLS
    return is_long and SKILL_TOOL not in calls and goals.working_s(tx, turn, now) >= min_duration_s


def offer(tx: Transaction, session: str) -> None:
    """Offer the procedure of the last turn; any later message ends the offer."""
    choices.put(tx, session, choices.SKILL, str(sessions.count_messages(tx, session)))


def is_open(tx: Transaction, session: str) -> bool:
    number = choices.load(tx, session).get(choices.SKILL)
    return number is not None and int(number) == sessions.count_messages(tx, session)


def close(tx: Transaction, session: str) -> None:
    """End the offer; the conversation gets no other."""
    choices.put(tx, session, choices.SKILL, "0")


def forbid(tx: Transaction) -> None:
    """Make no more offers."""
    preferences.put_state(tx, _STATE, _NEVER)


def allow(tx: Transaction) -> None:
    preferences.drop_state(tx, _STATE)
