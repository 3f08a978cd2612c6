"""Repository for the goals of sessions."""

from typing import Literal

from agent.context.goal_progress import LimitReason, TurnReason
from agent.events import GoalChanged
from agent.records import frozen
from gateway.core.messages import InboundMessage
from gateway.store.conditions import LIVE
from gateway.store.port import Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox

# Prefix of the delivery ids of notices about a goal; the principal who set it follows.
NOTICE = "goal:"
GoalState = Literal["active", "paused", "met", "removed"]
PauseReason = (
    TurnReason
    | LimitReason
    | Literal["person", "check_failed", "plan", "left", "lost", "others", "access", "restored"]
)


@frozen
class Goal:
    """Goal of a session; `message` is the template of its messages and contains its text.

    `turns`, `worked_s` and `cost_nusd` count since it was set or resumed. `remark` describes the
    missing work, the evidence that it is met, or the error that paused it. `next_event` is the
    event id of the waiting message that continues it. A removed goal is not stored any more.
    """

    session: str
    message: InboundMessage
    max_turns: int
    max_s: float
    max_nusd: int | None
    before_nusd: int
    created_at: float
    state: GoalState = "active"
    reason: PauseReason | Literal[""] = ""
    remark: str = ""
    next_event: str | None = None
    turns: int = 0
    worked_s: float = 0.0

    @property
    def text(self) -> str:
        return self.message.content

    @property
    def event(self) -> GoalChanged:
        """Event that shows the goal on screens."""
        state = "none" if self.state == "removed" else self.state
        counts = (self.turns, self.max_turns)
        return GoalChanged(state, self.text, *counts, self.reason, self.remark)

    @property
    def outcome(self) -> str:
        """State of the goal as in `Delivered.outcome`."""
        return self.reason or self.state

    @property
    def principal(self) -> str:
        """Person who set the goal, and with whose rights its turns run."""
        return self.message.principal

    @property
    def lane(self) -> str:
        return self.message.session_key


_COLUMNS = (
    "principal, template, remark, state, reason, next_event, turns, max_turns, worked_s, max_s,"
    " before_nusd, max_nusd, created_at"
)


def find(tx: Transaction, session: str) -> Goal | None:
    row = tx.first(f"SELECT {_COLUMNS} FROM goal WHERE session = ?", (session,))
    if row is None:
        return None
    principal, template, remark, state, reason, next_event, turns, max_turns, *numbers = row
    worked_s, max_s, before_nusd, max_nusd, created_at = numbers
    text = tx.unseal(template, "goal.template", session, principal)
    return Goal(
        session=session,
        message=InboundMessage.from_json(text),
        max_turns=max_turns,
        max_s=max_s,
        max_nusd=max_nusd,
        before_nusd=before_nusd,
        created_at=created_at,
        state=state,
        reason=reason,
        remark=tx.unseal(remark, "goal.remark", session, principal),
        next_event=next_event,
        turns=turns,
        worked_s=worked_s,
    )


def of_lane(tx: Transaction, lane: str) -> Goal | None:
    """Return the goal of the session that the lane is in."""
    session = sessions.bound_session(tx, lane)
    return find(tx, session) if session else None


def put(tx: Transaction, goal: Goal) -> None:
    """Store a goal, replacing the session's earlier goal."""
    session, principal = goal.session, goal.principal
    names = f"session, {_COLUMNS}"
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS.split(", "))
    tx.run(
        f"INSERT INTO goal ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        f" ON CONFLICT (session) DO UPDATE SET {changes}",
        (
            *(session, principal),
            tx.seal(goal.message.to_json(), "goal.template", session, principal),
            tx.seal(goal.remark, "goal.remark", session, principal),
            *(goal.state, goal.reason, goal.next_event, goal.turns, goal.max_turns),
            *(goal.worked_s, goal.max_s, goal.before_nusd, goal.max_nusd, goal.created_at),
        ),
    )


def remove(tx: Transaction, session: str) -> None:
    tx.run("DELETE FROM goal WHERE session = ?", (session,))


def cost_nusd(tx: Transaction, goal: Goal) -> int:
    """Return the known cost of the session since the goal was set or resumed."""
    return usage.of_session(tx, goal.session).cost_nusd - goal.before_nusd


def has_price(tx: Transaction, goal: Goal) -> bool:
    """Return whether the session has a call of known cost, or no calls yet."""
    totals = usage.of_session(tx, goal.session)
    return not totals.calls or totals.unpriced < totals.calls


def withdraw_next(tx: Transaction, goal: Goal, reason: str) -> None:
    """Withdraw the waiting message that would continue the goal."""
    if goal.next_event is not None:
        inbox.withdraw(tx, goal.lane, goal.next_event, reason)


def without_work(tx: Transaction) -> list[Goal]:
    """Return the active goals that no turn or message continues."""
    rows = tx.all(
        "SELECT session FROM goal WHERE state = 'active' AND NOT EXISTS"
        f" (SELECT 1 FROM turn WHERE turn.session = goal.session AND {LIVE})"
    )
    active = (find(tx, session) for (session,) in rows)
    return [goal for goal in active if goal is not None and not inbox.has_work(tx, goal.lane)]


def pause_all(tx: Transaction, reason: PauseReason) -> None:
    """Pause all active goals; their messages are withdrawn by the caller."""
    tx.run(
        "UPDATE goal SET state = 'paused', reason = ?, next_event = NULL WHERE state = 'active'",
        (reason,),
    )


def working_s(tx: Transaction, turn: int, now: float) -> float:
    """Return the seconds that a turn has worked, excluding the time that it waited for answers."""
    began, waited = tx.one(
        "SELECT created_at, (SELECT coalesce(sum(answered_at - asked_at), 0) FROM approval"
        " WHERE turn_id = turn.id AND answered_at IS NOT NULL) FROM turn WHERE id = ?",
        (turn,),
    )
    return max(0.0, now - float(began) - float(waited))
