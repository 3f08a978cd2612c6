"""Interruption of a chat's turn with its running jobs and sub-agents, or of one sub-agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.i18n import t
from gateway.access.approvals import ApprovalService
from gateway.core.approval import ApprovalPrompt
from gateway.core.markdown import escape_markdown
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.execution import subagent_tasks, turns
from gateway.store.repositories.execution.subagent_tasks import SubagentTask, TaskOutcome
from gateway.store.repositories.execution.turns import Stopping
from gateway.turns.goals import GoalService


@dataclass(slots=True)
class StopResult:
    """Result of a stop.

    Turns in `lanes_to_stop` end now, `closed_approvals` are withdrawn, and `lanes_to_wake` continue
    without the work they waited for.
    """

    stopping: Stopping | None
    lanes_to_stop: list[str] = field(default_factory=list)
    closed_approvals: list[ApprovalPrompt] = field(default_factory=list)
    lanes_to_wake: list[str] = field(default_factory=list)


def stop_lane(
    tx: Transaction,
    approvals: ApprovalService,
    goals: GoalService,
    lane: str,
    before: str,
    now: float,
) -> StopResult:
    """Store a request to stop the lane's turn, jobs and sub-agents, and pause its goal.

    Work that has not begun is withdrawn: in the chat, messages before the event `before`.
    """
    at_work = jobs.lanes_at_work(tx, lane)
    tasks = [task for text in (lane, *at_work) for task in subagent_tasks.below(tx, text)]
    # Messages after a job's turn get their own answer, as after any other turn.
    result = StopResult(turns.request_stop(tx, lane, "" if at_work else before))
    if result.stopping == "running":
        result.lanes_to_stop.append(lane)
    for job in at_work:
        result.stopping = turns.request_stop(tx, job, "")
        result.lanes_to_stop.append(job)
    _end(tx, approvals, tasks, result, now)
    is_goal_paused = goals.pause_of_lane(tx, lane, "stopped", now) is not None
    if (tasks or is_goal_paused) and result.stopping is None:
        result.stopping = "withdrawn"
    return result


def stop_subagent(
    tx: Transaction, approvals: ApprovalService, lane: str, number: str, now: float
) -> tuple[StopResult, str]:
    """End one sub-agent of a chat and its own sub-agents; return a sentence too."""
    result = StopResult(None)
    task = subagent_tasks.at_work(tx, number, lane)
    if task is None:
        return result, t(
            "There is no sub-agent {n} here; `/tasks` lists them.", n=escape_markdown(str(number))
        )
    _end(tx, approvals, [task, *subagent_tasks.below(tx, task.lane)], result, now)
    return result, t(
        "⏹ Sub-agent {name} ({n}) stopped.", name=escape_markdown(task.agent), n=task.id
    )


def _end(
    tx: Transaction,
    approvals: ApprovalService,
    tasks: Sequence[SubagentTask],
    result: StopResult,
    now: float,
) -> None:
    """End the tasks, the most recent first."""
    for task in reversed(tasks):
        # A follow-up task may wait for the task that it continues, in the same lane.
        has_begun = not inbox.withdraw(tx, task.lane, f"task:{task.id}", "withdrawn by /stop")
        if has_begun and turns.request_stop(tx, task.lane, "") == "running":
            result.lanes_to_stop.append(task.lane)
        else:
            subagent_tasks.end(tx, task.id, TaskOutcome("stopped", "Stopped before it began."), now)
            result.lanes_to_wake.append(task.caller_lane)
    for stopping_lane in result.lanes_to_stop:
        result.closed_approvals += approvals.withdraw(tx, stopping_lane, now)
