"""Service for jobs, which imports their code on first use."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent.errors import KoreError
from agent.records import frozen
from agent.tools.base import CallContext, ScheduleRequest
from agent.tools.runner import Permissions
from agent.types import ToolResult
from gateway.core.messages import InboundMessage
from gateway.core.records import JobChange, NewJob
from gateway.scheduler.job_context import FiredJobs, JobContext
from gateway.store.port import Store, Transaction
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.outcome import TurnOutcome
from gateway.turns.permissions import denied_summary

if TYPE_CHECKING:
    from gateway.scheduler.job_editor import JobRequest


class JobService:
    """Jobs for chats, tools and terminals.

    `changed` is set when a job has changed, `has_audience` once a person can be notified: a gateway
    runs, or a terminal is open. `on_fired` is called with jobs started manually. With `is_held`, no
    job becomes due, because this process has no sandbox for jobs.
    """

    def __init__(
        self,
        *,
        database: Store,
        context: JobContext,
        on_fired: Callable[[FiredJobs], None],
        is_held: bool = False,
    ) -> None:
        self.changed = asyncio.Event()
        self.has_audience = asyncio.Event()
        self.context = context
        self._is_held = is_held
        self._database = database
        self._on_fired = on_fired

    def start_firing(self) -> None:
        """Allow jobs to fire, because a person can be notified now."""
        if not self._is_held:
            self.has_audience.set()

    def notify_changed(self) -> None:
        """Wake the timer after a change of a job was committed."""
        self.changed.set()

    def notify_fired(self, fired: FiredJobs) -> None:
        """Announce jobs started manually, after the commit."""
        self._on_fired(fired)

    def set_heartbeat(self, tx: Transaction, now: float) -> None:
        from gateway.core.timezones import own_zone
        from gateway.scheduler.heartbeat import ensure_heartbeat_job

        limits = self.context.schedule
        ensure_heartbeat_job(
            tx, limits, self.context.access.owner_id, limits.zone or own_zone(), now
        )

    def handle_chat(
        self, tx: Transaction, message: InboundMessage, argument: str, session: str | None
    ) -> str:
        """Return the answer to `/cron` in markdown."""
        from gateway.scheduler.job_commands import handle_chat

        return handle_chat(tx, self, message, argument, session)

    def choices(self, tx: Transaction, message: InboundMessage) -> list[tuple[str, str]]:
        """Return labels and arguments of the buttons below `/cron`."""
        from gateway.scheduler.job_commands import choices

        return choices(tx, self, message)

    def record_end(self, tx: Transaction, claim: TurnClaim, failed: str) -> None:
        """Record the end of a job's turn, in the transaction that ends the turn.

        `failed` is the reason, or ''.
        """
        for message in claim.messages:
            if message.kind == "job":
                from gateway.scheduler.firing import record_result

                record_result(tx, self.context, message, failed, time.time())

    def is_silent(self, claim: TurnClaim, outcome: TurnOutcome) -> bool:
        """Return whether a job's result has nothing that people need to read."""
        if claim.messages[-1].job is None or outcome.error is not None or outcome.denied_summary:
            return False
        from gateway.scheduler.firing import is_silent

        return outcome.result is not None and is_silent(outcome.result.text)

    def clean(self, claim: TurnClaim, text: str) -> str:
        """Return a text for people, without the marker with which jobs report nothing."""
        if claim.messages[-1].job is None:
            return text
        from gateway.scheduler.firing import without_silent_word

        return without_silent_word(text)

    def denied_summary(self, claim: TurnClaim, permissions: Permissions) -> str:
        """Return a sentence about permissions that a job's turn lacked, or ''."""
        if claim.messages[-1].job is None:
            return ""
        return denied_summary(permissions)

    async def jobs(self) -> Sequence[Mapping[str, Any]]:
        from gateway.scheduler.job_commands import all_facts

        return await self._database.transact(all_facts)

    async def add_from_cli(self, job: NewJob) -> str:
        """Add a job and return a sentence for the terminal. Raises `KoreError`."""
        from gateway.scheduler.job_commands import add_from_cli

        return await self._database.transact(add_from_cli, self, job)

    async def change_from_cli(self, number: int, change: JobChange) -> str:
        """Change a job and return a sentence. Raises `KoreError` for an unknown job."""
        from gateway.scheduler.job_commands import change_from_cli

        return await self._database.transact(change_from_cli, self, number, change)

    def of_turn(self, claim: TurnClaim) -> "TurnSchedule":
        return TurnSchedule(self, claim)

    async def handle_tool(self, claim: TurnClaim, request: "JobRequest") -> ToolResult:
        """Apply a tool call. Raises `KoreError`."""
        from gateway.scheduler.job_commands import handle_tool

        return await self._database.transact(handle_tool, self, claim, request)

    async def check_tool(self, claim: TurnClaim, request: "JobRequest") -> None:
        """Try the call and roll it back; raise `KoreError` like `handle_tool`."""
        from gateway.scheduler.job_commands import handle_tool

        def attempt(tx: Transaction) -> None:
            handle_tool(tx, self, claim, request)
            raise _RolledBack

        with suppress(_RolledBack):
            await self._database.transact(attempt)


class _RolledBack(Exception):
    """Raised to roll back a trial."""


@frozen
class TurnSchedule:
    """Implementation of `agent.tools.base.Schedule` for one turn."""

    service: JobService
    claim: TurnClaim

    async def check(self, request: ScheduleRequest, call: CallContext) -> None:
        await self.service.check_tool(self.claim, self._job_request(request, call))

    async def __call__(self, request: ScheduleRequest, call: CallContext) -> ToolResult:
        return await self.service.handle_tool(self.claim, self._job_request(request, call))

    def _job_request(self, request: ScheduleRequest, call: CallContext) -> "JobRequest":
        """Return the request of a call. Raises `KoreError`."""
        from gateway.scheduler.job_editor import JobRequest

        if len({message.principal for message in self.claim.messages}) > 1:
            raise KoreError(
                "several people are in this conversation, and a job belongs to one: ask for /cron"
            )
        return JobRequest(
            action=request.action,
            when=request.when,
            text=request.text,
            is_task=request.prompt,
            number=request.id,
            call=call.call.id,
            taint=call.taint,
        )
