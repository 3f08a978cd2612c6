"""The front's part: it takes what workers tell, and goes on for those that have died."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.bus import MessageBus
from gateway.core.records import WorkerInfo
from gateway.delivery.sender import OutboxSender
from gateway.fanout.base import Fanout
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.execution import claims, open_work
from gateway.store.repositories.execution.claims import OWNER
from gateway.turns.command_reports import report_lost_commands
from gateway.workers.event_relay import EventReceiver
from gateway.workers.hints import (
    AuditHint,
    EventsHint,
    Hint,
    JobsHint,
    LaneHint,
    MailHint,
    QuestionHint,
    decode,
)
from gateway.workers.links import FrontLink

log = logging.getLogger(__name__)

# So often it looks for workers that have died, and for what no hint told of.
LOOK_S = 1.0
# A lane that waits in so many looks is passed on once more.
_PATIENCE = 2


class WorkerTable(Protocol):
    """`gateway.store.postgres.worker_table`: workers that count, and what ends them."""

    def alive(self, tx: Transaction) -> Sequence[WorkerInfo]: ...
    def end_silent(self, tx: Transaction, lease_s: float) -> Sequence[WorkerInfo]: ...
    def ended_with_turns(self, tx: Transaction) -> Sequence[int]: ...
    def name_of(self, tx: Transaction, number: int) -> str: ...
    def end_connections(self, tx: Transaction, name: str) -> None: ...
    def forget_old(self, tx: Transaction) -> None: ...


class FrontLoop:
    """`run` works until it is cancelled. Who says nothing for `lease_s` is declared dead."""

    def __init__(  # noqa: PLR0913 - the parts that hints are for, by name
        self,
        *,
        database: Store,
        table: WorkerTable,
        fanout: Fanout,
        link: FrontLink,
        bus: MessageBus,
        sender: OutboxSender,
        approvals: ApprovalCoordinator,
        receiver: EventReceiver,
        flush_audit: Callable[[], Awaitable[None]],
        notify_jobs: Callable[[], None],
        lease_s: float,
    ) -> None:
        self._database = database
        self._table = table
        self._link = link
        self._bus = bus
        self._sender = sender
        self._approvals = approvals
        self._receiver = receiver
        self._flush_audit = flush_audit
        self._notify_jobs = notify_jobs
        self._lease_s = lease_s
        self._audit_news = asyncio.Event()
        self._has_workers = True
        self._looked_at = time.monotonic()
        self._patient_until = self._looked_at
        self._alive: Sequence[WorkerInfo] = ()
        # Of lanes that wait, in how many looks they did.
        self._seen: dict[str, int] = {}
        fanout.subscribe("front", self._receive, self._audit_news.set)

    @property
    def workers(self) -> Sequence[WorkerInfo]:
        """Those that counted at the last look."""
        return self._alive

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_audit(), name="audit entries of workers")
            while True:
                try:
                    await self._reap()
                    await self._find_missed()
                except StoreError as exc:
                    log.warning("looking for workers is delayed: %s", exc)
                await asyncio.sleep(LOOK_S)

    async def _reap(self) -> None:
        """Whoever has died loses its turns; others go on with them."""
        lanes, ended, alive = await self._database.transact(self._end_silent)
        self._link.room = {one.number: int(one.state.get("room", 1)) for one in alive}
        self._alive = alive
        if bool(alive) != self._has_workers:
            self._has_workers = bool(alive)
            log.log(*_NEWS[self._has_workers])
        for number, name in ended:
            log.warning("worker %d (%s) has died: others go on with its turns", number, name)
            self._receiver.forget(number)
            await self._database.transact(self._table.end_connections, name)
        if ended:
            self._approvals.look_again(orphans=True)
        for lane in lanes:
            self._bus.wake(lane)

    def _end_silent(
        self, tx: Transaction
    ) -> tuple[list[str], list[tuple[int, str]], Sequence[WorkerInfo]]:
        silent = () if self._is_patient() else self._table.end_silent(tx, self._lease_s)
        ended = [(one.number, one.name) for one in silent]
        known = {number for number, _ in ended}
        # Also those that had no time to put their turns down.
        ended += [
            (number, self._table.name_of(tx, number))
            for number in self._table.ended_with_turns(tx)
            if number not in known
        ]
        lanes = []
        for number, name in ended:
            for session in open_work.pinned_sessions(tx, number):
                lanes.append(report_lost_commands(tx, session, name))
            usage.forget_reservations(tx, number)
            lanes += claims.recover(tx, number)
        self._table.forget_old(tx)
        return [one for one in lanes if one is not None], ended, self._table.alive(tx)

    def _is_patient(self) -> bool:
        """Where the server was away no worker could say that it lives: those that do say so
        within a lease."""
        now = time.monotonic()
        if now - self._looked_at > max(self._lease_s / 2, 3 * LOOK_S):
            self._patient_until = now + self._lease_s
        self._looked_at = now
        return now < self._patient_until

    async def _find_missed(self) -> None:
        waiting, mail = await self._database.transact(_waiting_lanes)
        self._seen = {lane: self._seen.get(lane, 0) + 1 for lane in waiting}
        for lane, looks in self._seen.items():
            if looks == _PATIENCE:
                self._bus.wake(lane)
        for lane in mail:
            self._sender.wake(lane)

    async def _keep_audit(self) -> None:
        while True:
            await self._audit_news.wait()
            self._audit_news.clear()
            await self._flush_audit()

    def _receive(self, message: bytes) -> None:
        hint = decode(message)
        if hint is not None:
            self._follow(hint)

    def _follow(self, hint: Hint) -> None:
        match hint:
            case EventsHint():
                self._receiver.receive(hint)
            case MailHint(lane):
                self._sender.wake(lane)
            case LaneHint(lane, to) if to == OWNER:
                self._bus.wake(lane)
            case QuestionHint():
                self._approvals.look_again()
            case AuditHint():
                self._audit_news.set()
            case JobsHint():
                self._notify_jobs()


_NEWS = {
    True: (logging.INFO, "workers run the turns of this gateway"),
    False: (logging.WARNING, "no worker runs: messages wait until one does (`kore worker`)"),
}


def _waiting_lanes(tx: Transaction) -> tuple[list[str], list[str]]:
    return open_work.lanes(tx), outbox.lanes_with_mail(tx)
