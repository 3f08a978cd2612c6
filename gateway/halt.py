"""Halting: a stop ends the turn of a chat and all that works for it."""

from dataclasses import dataclass, field
from sqlite3 import Connection

from gateway.clerk import Clerk, Settled
from gateway.store import inbox, tasks, turns
from gateway.store.tasks import Outcome
from gateway.store.turns import Stopping


@dataclass(slots=True)
class Halted:
    """What a stop came to: the lanes whose turns are to end now, and the questions that it has
    withdrawn; `woken` lanes go on without what they waited for."""

    stopping: Stopping | None
    lanes: list[str] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)


def halt(connection: Connection, clerk: Clerk, lane: str, before: str, now: float) -> Halted:
    """Remember that all of it is to end. What was not begun is withdrawn: in the chat, what
    stands in front of the event `before`."""
    working = tasks.below(connection, lane)
    halted = Halted(turns.request_stop(connection, lane, before))
    if halted.stopping == "running":
        halted.lanes.append(lane)
    for errand in reversed(working):
        if turns.request_stop(connection, errand.lane, "") == "running":
            halted.lanes.append(errand.lane)
        else:
            inbox.withdraw(connection, errand.lane, "withdrawn by /stop")
            tasks.end(connection, errand.id, Outcome("stopped", "Stopped before it began."), now)
            halted.woken.append(errand.caller_lane)
    for stopped in halted.lanes:
        halted.settled += clerk.withdraw(connection, stopped, now)
    if working and halted.stopping is None:
        halted.stopping = "withdrawn"
    return halted
