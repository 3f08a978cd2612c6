"""Jobs: where they are made, changed and told of. What a job needs is imported with it."""

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

if TYPE_CHECKING:
    from gateway.scheduler.job_editor import JobRequest


class JobService:
    """Jobs for chats, tools and terminals.

    `changed` is set when a job has changed, `has_audience` once a person can be notified: a
    gateway runs, or a terminal is open. `on_fired` is called with what was begun by hand. With
    `is_held` nothing comes due: this process has no sandbox that jobs could count on.
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
        """A person can be notified from now on: a gateway runs, or a terminal is open."""
        if not self._is_held:
            self.has_audience.set()

    def notify_changed(self) -> None:
        """A job has changed, and is stored."""
        self.changed.set()

    def notify_fired(self, fired: FiredJobs) -> None:
        """Something was begun by hand, and is stored."""
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
        """What `/cron` answers, in markdown."""
        from gateway.scheduler.job_commands import handle_chat

        return handle_chat(tx, self, message, argument, session)

    def choices(self, tx: Transaction, message: InboundMessage) -> list[tuple[str, str]]:
        """What buttons below `/cron` say, and the argument of each."""
        from gateway.scheduler.job_commands import choices

        return choices(tx, self, message)

    def record_end(self, tx: Transaction, claim: TurnClaim, failed: str) -> None:
        """The turn of a job is over, in the transaction that ends it; `failed` says why, or ''."""
        for message in claim.messages:
            if message.kind == "job":
                from gateway.scheduler.firing import record_result

                record_result(tx, self.context, message, failed, time.time())

    def is_silent(self, claim: TurnClaim, ending: TurnOutcome) -> bool:
        """Whether a job has come to nothing that anybody need read."""
        if claim.messages[-1].job is None or ending.error is not None or ending.denied_summary:
            return False
        from gateway.scheduler.firing import is_silent

        return ending.result is not None and is_silent(ending.result.text)

    def clean(self, claim: TurnClaim, text: str) -> str:
        """Return a text for people; that of a job without its word for "nothing to say"."""
        if claim.messages[-1].job is None:
            return text
        from gateway.scheduler.firing import without_silent_word

        return without_silent_word(text)

    def denied_summary(self, claim: TurnClaim, permissions: Permissions) -> str:
        """What a job's turn would have had to be allowed, in a sentence; '' for nothing."""
        if claim.messages[-1].job is None:
            return ""
        from gateway.turns.unattended import denied_summary

        return denied_summary(permissions)

    async def jobs(self) -> Sequence[Mapping[str, Any]]:
        from gateway.scheduler.job_commands import all_facts

        return await self._database.transact(all_facts)

    async def add_from_cli(self, job: NewJob) -> str:
        """A sentence for the terminal. Raises `KoreError`."""
        from gateway.scheduler.job_commands import add_from_cli

        return await self._database.transact(add_from_cli, self, job)

    async def change_from_cli(self, number: int, change: JobChange) -> str:
        """A sentence for the terminal. Raises `KoreError` for an unknown job."""
        from gateway.scheduler.job_commands import change_from_cli

        return await self._database.transact(change_from_cli, self, number, change)

    def of_turn(self, claim: TurnClaim) -> "TurnSchedule":
        return TurnSchedule(self, claim)

    async def handle_tool(self, claim: TurnClaim, request: "JobRequest") -> ToolResult:
        """Raises `KoreError`."""
        from gateway.scheduler.job_commands import handle_tool

        return await self._database.transact(handle_tool, self, claim, request)

    async def check_tool(self, claim: TurnClaim, request: "JobRequest") -> None:
        """Raise `KoreError` for what `handle_tool` would refuse, which is tried and rolled back."""
        from gateway.scheduler.job_commands import handle_tool

        def attempt(tx: Transaction) -> None:
            handle_tool(tx, self, claim, request)
            raise _RolledBack

        with suppress(_RolledBack):
            await self._database.transact(attempt)


class _RolledBack(Exception):
    """What was tried is not to be stored."""


@frozen
class TurnSchedule:
    """Implements `agent.tools.base.Schedule` for one turn."""

    service: JobService
    claim: TurnClaim

    async def check(self, request: ScheduleRequest, call: CallContext) -> None:
        await self.service.check_tool(self.claim, self._job_request(request, call))

    async def __call__(self, request: ScheduleRequest, call: CallContext) -> ToolResult:
        return await self.service.handle_tool(self.claim, self._job_request(request, call))

    def _job_request(self, request: ScheduleRequest, call: CallContext) -> "JobRequest":
        """Raises `KoreError`."""
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
