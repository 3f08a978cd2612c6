"""Tracking of the answer to a message, even across the turns of a goal."""

from gateway.core.records import Delivered

# Outcomes of a goal that reached a limit.
GOAL_LIMITS = frozenset({"turns", "time", "cost", "limit"})


class AwaitedAnswer:
    """Answer to the message `event_id`; if that continues a goal, up to the end of the goal.

    If the message is a command that begins a turn, `begun_event_id` names the turn's message, and
    the answer to it counts as well. `outcome` is the outcome of the last delivery
    (`Delivered.outcome`).
    """

    def __init__(self, event_id: str, begun_event_id: str | None = None) -> None:
        self.event_id = event_id
        self._begun_event_id = begun_event_id
        self.has_goal = False
        self.outcome: str | None = None

    @property
    def is_refused(self) -> bool:
        """True if the message was a command that did nothing."""
        return not self.has_goal and self.outcome == "refused"

    def take(self, delivered: Delivered) -> bool:
        """Record a delivery to the lane of the message; return whether the answer is complete."""
        is_ours = delivered.event_id == self.event_id
        if not delivered.last or not (self.has_goal or is_ours):
            return False
        if not self.has_goal:
            self.outcome = delivered.outcome
            self.has_goal = delivered.outcome == "active"
            if self._begun_event_id is not None and not self.is_refused:
                self.event_id, self._begun_event_id = self._begun_event_id, None
                return False
            return not self.has_goal
        if delivered.ends_goal:
            self.outcome = delivered.outcome
        return delivered.ends_goal
