"""Progress of a goal: what it used of its limits, and why a turn ends its work."""

from typing import Literal

from agent.prompts import render_prompt
from agent.providers.usage import dollars
from agent.records import frozen
from agent.types import Result

# Reasons for pausing a goal: those of a turn, and its limits.
TurnReason = Literal["stopped", "limit", "failed", "question"]
LimitReason = Literal["turns", "time", "cost"]
_BRACKETS = str.maketrans("[]", "()")


@frozen
class GoalProgress:
    """Turns, seconds of work and nano-dollars that a goal used; None as a limit: no limit."""

    turns: int
    max_turns: int
    worked_s: float
    max_s: float | None
    cost_nusd: int
    max_nusd: int | None

    @property
    def limit(self) -> LimitReason | None:
        """The limit that is reached, if any."""
        if self.turns >= self.max_turns:
            return "turns"
        if self.max_s is not None and self.worked_s >= self.max_s:
            return "time"
        if self.max_nusd is not None and self.cost_nusd >= self.max_nusd:
            return "cost"
        return None

    def step_text(self, prompt: str, goal: str, **values: str) -> str:
        """Return the text of the next turn, for the model: this prompt with these values."""
        minutes = int(self.worked_s // 60)
        most = "" if self.max_s is None else f" of {round(self.max_s / 60)}"
        used = f"{minutes}{most} minutes"
        if self.max_nusd is not None:
            used += f" and {dollars(self.cost_nusd)} of {dollars(self.max_nusd)}"
        # The words of a model must not end the brackets around them.
        values = {name: value.translate(_BRACKETS) for name, value in values.items()}
        return render_prompt(
            prompt, goal=goal, n=self.turns + 1, max=self.max_turns, used=used, **values
        )


def reason_of(result: Result) -> TurnReason | None:
    """Return why the goal is paused after a turn with this result; None to continue."""
    if result.stopped == "cancelled":
        return "stopped"
    if result.stopped == "limit":
        return "limit"
    if result.stopped not in (None, "max_iterations"):
        return "failed"
    return "question" if result.signal in ("DECIDE", "BLOCKED") else None
