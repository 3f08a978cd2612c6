"""What a turn asks of the jobs, which lie above it."""

from typing import Protocol

from agent.tools.base import Schedule
from agent.tools.runner import Permissions
from gateway.store.port import Transaction
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.outcome import TurnOutcome


class JobHooks(Protocol):
    """What comes due by itself: `gateway.scheduler.service.JobService`."""

    def of_turn(self, claim: TurnClaim) -> Schedule:
        """What the turn's tool asks for jobs with."""
        ...

    def denied_summary(self, claim: TurnClaim, permissions: Permissions) -> str:
        """What a job's turn would have had to be allowed, in a sentence; '' for nothing."""
        ...

    def is_silent(self, claim: TurnClaim, outcome: TurnOutcome) -> bool:
        """Whether a job has come to nothing that anybody need read."""
        ...

    def clean(self, claim: TurnClaim, text: str) -> str:
        """Return a text for people; that of a job without its word for "nothing to say"."""
        ...

    def record_end(self, tx: Transaction, claim: TurnClaim, failed: str) -> None:
        """The turn is over, in the transaction that ends it; `failed` says why, or ''."""
        ...
