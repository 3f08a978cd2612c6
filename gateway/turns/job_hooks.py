"""Interface of scheduled jobs that turns use, because jobs belong to a higher layer."""

from typing import Protocol

from agent.tools.base import Schedule
from agent.tools.runner import Permissions
from gateway.store.port import Transaction
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.outcome import TurnOutcome


class JobHooks(Protocol):
    """Port to the jobs, implemented by `gateway.scheduler.service.JobService`."""

    def of_turn(self, claim: TurnClaim) -> Schedule:
        """Return the scheduler for the turn's job tool."""
        ...

    def denied_summary(self, claim: TurnClaim, permissions: Permissions) -> str:
        """Return a sentence about approvals that a job's turn lacked, or ''."""
        ...

    def is_silent(self, claim: TurnClaim, outcome: TurnOutcome) -> bool:
        """Return whether the outcome of a job needs no message."""
        ...

    def clean(self, claim: TurnClaim, text: str) -> str:
        """Return the text for people, without the marker of a job for "nothing to say"."""
        ...

    def record_end(self, tx: Transaction, claim: TurnClaim, failed: str) -> None:
        """Record the end of the turn in its final transaction; `failed` is the reason, or ''."""
        ...
