"""Halting: a stop ends the turn of a chat, its jobs at work and all that works for them, or one
sub-agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.i18n import t
from gateway.access.approvals import ApprovalService, ClosedApproval
from gateway.core.markdown import escape_markdown
from gateway.store.port import Transaction
from gateway.store.repositories import inbox, jobs, subagent_tasks, turns
from gateway.store.repositories.subagent_tasks import SubagentTask, TaskOutcome
from gateway.store.repositories.turns import Stopping


@dataclass(slots=True)
class StopResult:
    """What a stop came to: the lanes whose turns are to end now, and the questions that it has
    withdrawn; `woken` lanes go on without what they waited for."""

    stopping: Stopping | None
    lanes: list[str] = field(default_factory=list)
    settled: list[ClosedApproval] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)


def stop_lane(
    tx: Transaction, approvals: ApprovalService, lane: str, before: str, now: float
) -> StopResult:
    """Remember that all of it is to end. What was not begun is withdrawn: in the chat, what
    stands in front of the event `before`."""
    at_work = jobs.lanes_at_work(tx, lane)
    working = [errand for one in (lane, *at_work) for errand in subagent_tasks.below(tx, one)]
    # What waits behind a job's turn gets its own answer, as behind any other.
    halted = StopResult(turns.request_stop(tx, lane, "" if at_work else before))
    if halted.stopping == "running":
        halted.lanes.append(lane)
    for job in at_work:
        halted.stopping = turns.request_stop(tx, job, "")
        halted.lanes.append(job)
    _end(tx, approvals, working, halted, now)
    if working and halted.stopping is None:
        halted.stopping = "withdrawn"
    return halted


def stop_subagent(
    tx: Transaction, approvals: ApprovalService, lane: str, number: str, now: float
) -> tuple[StopResult, str]:
    """End one sub-agent of a chat and what works for it, and nothing else; with a sentence."""
    halted = StopResult(None)
    errand = subagent_tasks.at_work(tx, number, lane)
    if errand is None:
        return halted, t(
            "There is no sub-agent {n} here; `/tasks` lists them.", n=escape_markdown(str(number))
        )
    _end(tx, approvals, [errand, *subagent_tasks.below(tx, errand.lane)], halted, now)
    return halted, t(
        "⏹ Sub-agent {name} ({n}) stopped.", name=escape_markdown(errand.agent), n=errand.id
    )


def _end(
    tx: Transaction,
    approvals: ApprovalService,
    working: Sequence[SubagentTask],
    halted: StopResult,
    now: float,
) -> None:
    """Those that were sent out last come first."""
    for errand in reversed(working):
        # One that goes on with another may wait behind that one, in the same lane.
        begun = not inbox.withdraw(tx, errand.lane, f"task:{errand.id}", "withdrawn by /stop")
        if begun and turns.request_stop(tx, errand.lane, "") == "running":
            halted.lanes.append(errand.lane)
        else:
            subagent_tasks.end(
                tx, errand.id, TaskOutcome("stopped", "Stopped before it began."), now
            )
            halted.woken.append(errand.caller_lane)
    for stopped in halted.lanes:
        halted.settled += approvals.withdraw(tx, stopped, now)
