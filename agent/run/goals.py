"""Goals of library users: turn after turn until a model judges that a condition is met."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal

from agent.context.goal_judge import GoalJudge, GoalVerdict
from agent.context.goal_progress import GoalProgress, LimitReason, TurnReason, reason_of
from agent.prompts import load_prompt
from agent.providers.usage import NUSD_PER_USD, InMemoryMeter
from agent.records import frozen
from agent.run.history import History
from agent.run.options import with_earlier
from agent.tools.waiting_time import WaitingTime, waiting_time
from agent.types import Context, Message, Result, Text

GoalReason = TurnReason | LimitReason | Literal["plan"]


@frozen
class GoalLimits:
    """Limits of a goal, checked after each turn; None: no limit. Unknown costs count as nothing."""

    turns: int = 20
    hours: float | None = 2.0
    cost_usd: float | None = 5.0


@frozen
class GoalResult:
    """Result of the work for a goal, after `turns` turns.

    `reason` is why it is paused, None if it is met. `remark` is the evidence that it is met, the
    question, or what is missing. `result` is that of the last turn, with the text, the messages and
    the usage of all turns; usage and cost include the checks.
    """

    reason: GoalReason | None
    remark: str
    turns: int
    result: Result[Any]

    @property
    def is_met(self) -> bool:
        return self.reason is None


@frozen
class GoalRun:
    """Work for a goal in a session. `run_turn` runs a turn; in plan mode only one is run.

    The `clock`, in seconds, measures the work; time in which a question waits for its answer does
    not count.
    """

    goal: str
    limits: GoalLimits
    session: str
    history: History
    judge: GoalJudge
    run_turn: Callable[[Message], Awaitable[Result[Any]]]
    is_plan: bool = False
    clock: Callable[[], float] = time.monotonic

    async def run(self) -> GoalResult:
        """Work until the goal is met or paused. Raises the `KoreError` of a turn or a check."""
        with waiting_time(self.clock) as waited:
            return await self._run(waited)

    async def _run(self, waited: WaitingTime) -> GoalResult:
        meter, began_s = InMemoryMeter(), self.clock()
        message = Message("user", (Text(self.goal), Context(load_prompt("goal_begin"))))
        results: list[Result[Any]] = []
        while True:
            results.append(await self.run_turn(message))
            reason: GoalReason | None = reason_of(results[-1])
            if reason is not None:
                remark = results[-1].signal_reason or ""
                break
            messages = await self.history.load(self.session)
            verdict = await self.judge.judge(self.goal, messages, meter)
            worked_s = self.clock() - began_s - waited.total_s
            progress = self._progress(results, worked_s, meter)
            remark = verdict.evidence if verdict.is_met else verdict.missing
            reason = self._obstacle(verdict, progress)
            if verdict.is_met or reason is not None:
                break
            step = progress.step_text("goal_step", self.goal, missing=verdict.missing)
            message = Message("user", (Context(step),))
        return GoalResult(reason, remark, len(results), _together(results, meter))

    def _progress(
        self, results: list[Result[Any]], worked_s: float, meter: InMemoryMeter
    ) -> GoalProgress:
        limits = self.limits
        turns_usd = sum(result.cost_usd or 0 for result in results)
        return GoalProgress(
            turns=len(results),
            max_turns=limits.turns,
            worked_s=worked_s,
            max_s=None if limits.hours is None else limits.hours * 3600,
            cost_nusd=round(turns_usd * NUSD_PER_USD) + meter.spent.cost_nusd,
            max_nusd=None if limits.cost_usd is None else round(limits.cost_usd * NUSD_PER_USD),
        )

    def _obstacle(self, verdict: GoalVerdict, progress: GoalProgress) -> GoalReason | None:
        """Return the reason for not beginning another turn; None to continue, or if it is met."""
        if verdict.is_met:
            return None
        if verdict.asks:
            return "question"
        return "plan" if self.is_plan else progress.limit


def _together(results: list[Result[Any]], meter: InMemoryMeter) -> Result[Any]:
    """Return the last result with the texts, messages and usage of all turns and checks."""
    whole = results[0]
    for result in results[1:]:
        whole = with_earlier(whole, result)
    costs = (whole.cost_usd, meter.spent.cost_usd)
    return replace(
        whole,
        text="\n\n".join(result.text for result in results if result.text),
        usage=whole.usage + meter.spent.usage,
        cost_usd=None if None in costs else sum(filter(None, costs)),
    )
