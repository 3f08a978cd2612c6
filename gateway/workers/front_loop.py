"""Front process of a gateway with workers: takes their hints and replaces dead workers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.bus import MessageBus
from gateway.core.records import WorkerInfo
from gateway.delivery.sender import OutboxSender, wait_for
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
    LeavingHint,
    MailHint,
    QuestionHint,
    decode,
)
from gateway.workers.links import FrontLink

log = logging.getLogger(__name__)

# Interval between searches for dead workers and for work whose hint was lost.
POLL_INTERVAL_S = 1.0
# A waiting lane is passed on again after this many checks, then after twice as many each time.
_LOOKS_BEFORE_REPEAT = 2
# Number of checks without any worker before people are notified.
_GRACE_LOOKS = 10
# Number of rounds between checks for audit entries whose hint was lost.
_AUDIT_LOOKS = 30
# Workers that ended within this time are still listed.
_SHOWN_S = 3_600.0


class WorkerTable(Protocol):
    """Table of workers, implemented by `gateway.store.postgres.worker_table`."""

    def alive(self, tx: Transaction) -> Sequence[WorkerInfo]: ...
    def ended(self, tx: Transaction, within_s: float) -> Sequence[WorkerInfo]: ...
    def silent(self, tx: Transaction, lease_s: float) -> Sequence[WorkerInfo]: ...
    def end(self, tx: Transaction, number: int) -> None: ...
    def ended_with_turns(self, tx: Transaction) -> Sequence[int]: ...
    def name_of(self, tx: Transaction, number: int) -> str: ...
    def end_connections(self, tx: Transaction, name: str) -> None: ...
    def forget_old(self, tx: Transaction) -> None: ...


class FrontLoop:
    """Loop of the front; a worker that is silent for `lease_s` is declared dead."""

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
        self._fanout = fanout
        self._link = link
        self._bus = bus
        self._sender = sender
        self._approvals = approvals
        self._receiver = receiver
        self._flush_audit = flush_audit
        self._notify_jobs = notify_jobs
        self._lease_s = lease_s
        self._audit_news = asyncio.Event()
        self._has_workers = False
        self._looks_without = 0
        self._looked_at = time.monotonic()
        self._patient_until = self._looked_at
        self._leaving: set[int] = set()
        self._look_now = asyncio.Event()
        self._reaped_count = 0
        self._look_count = 0
        # Number of checks for which each lane has waited.
        self._looks: dict[str, int] = {}
        fanout.subscribe("front", self._receive, self._audit_news.set)

    async def status(self) -> Mapping[str, Any]:
        """Return workers and waiting lanes, for `kore status --all` and /metrics."""
        facts = await self._database.transact(self._read_status)
        return {
            **facts,
            "reaped": self._reaped_count,
            "hints_dropped": self._fanout.dropped_count
            + sum(int(worker["hints_dropped"] or 0) for worker in facts["alive"]),
        }

    def _read_status(self, tx: Transaction) -> dict[str, Any]:
        oldest_at = open_work.oldest_at(tx)
        return {
            "alive": [_worker_facts(worker_info) for worker_info in self._table.alive(tx)],
            "ended": [
                _worker_facts(worker_info) for worker_info in self._table.ended(tx, _SHOWN_S)
            ],
            "lease_s": self._lease_s,
            "lanes_waiting": len(open_work.lanes(tx)),
            "oldest_waiting_s": 0.0 if oldest_at is None else max(0.0, time.time() - oldest_at),
            "lanes_with_mail": len(outbox.lanes_with_mail(tx)),
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_audit(), name="audit entries of workers")
            while True:
                self._look_now.clear()
                try:
                    await self._reap()
                    await self._find_missed()
                except StoreError as exc:
                    log.warning("the check of workers is delayed: %s", exc)
                await wait_for(self._look_now, POLL_INTERVAL_S)

    async def _reap(self) -> None:
        """Release the turns of dead workers, so that others continue them."""
        # A process that was stopped inside a transaction keeps its locks. The next transaction
        # would wait for them while holding locks itself.
        await self._database.transact(self._end_connections)
        lanes, ended, alive = await self._database.transact(self._end_silent)
        self._note_look()
        self._report_missing_workers(bool(alive))
        self._leaving &= {worker_info.number for worker_info in alive}
        self._link.room = {
            worker_info.number: int(worker_info.state.get("room", 0))
            for worker_info in alive
            if worker_info.number not in self._leaving
        }
        self._reaped_count += len(ended)
        self._receiver.keep_only({worker_info.number for worker_info in alive})
        for number, name in ended:
            log.warning("worker %d (%s) has died: others continue its turns", number, name)
        if ended:
            self._approvals.look_again(orphans=True)
        for lane in lanes:
            self._bus.wake(lane)

    def _report_missing_workers(self, has_some: bool) -> None:
        """Report missing workers, after the time that workers need to start with the gateway."""
        self._looks_without = 0 if has_some else self._looks_without + 1
        if has_some and not self._has_workers:
            log.info("workers run the turns of this gateway")
            self._has_workers = True
        elif self._looks_without == _GRACE_LOOKS:
            log.warning("no worker is running: messages wait until one is (`kore worker`)")
            self._has_workers = False

    def _end_connections(self, tx: Transaction) -> None:
        """End connections of workers that were silent for a lease or no longer count."""
        names = {self._table.name_of(tx, number) for number in self._table.ended_with_turns(tx)}
        if not self._is_patient(time.monotonic()):
            names |= {worker_info.name for worker_info in self._table.silent(tx, self._lease_s)}
        for name in names:
            self._table.end_connections(tx, name)

    def _end_silent(
        self, tx: Transaction
    ) -> tuple[list[str], list[tuple[int, str]], Sequence[WorkerInfo]]:
        is_patient = self._is_patient(time.monotonic())
        silent = () if is_patient else self._table.silent(tx, self._lease_s)
        for worker_info in silent:
            self._table.end(tx, worker_info.number)
        ended = [(worker_info.number, worker_info.name) for worker_info in silent]
        numbers = {number for number, _ in ended}
        # Include workers that had no time to suspend their turns.
        ended += [
            (number, self._table.name_of(tx, number))
            for number in self._table.ended_with_turns(tx)
            if number not in numbers
        ]
        lanes = []
        for number, name in ended:
            for session in open_work.pinned_sessions(tx, number):
                lanes.append(report_lost_commands(tx, session, name))
            usage.forget_reservations(tx, number)
            lanes += claims.recover(tx, number)
        self._table.forget_old(tx)
        return [lane for lane in lanes if lane is not None], ended, self._table.alive(tx)

    def _is_patient(self, now: float) -> bool:
        """Return whether silent workers still get time after the server was unreachable.

        During that time no worker could renew its lease; live workers do so within one lease. Call
        this once the server is reachable.
        """
        return now < self._patient_until or self._was_away(now)

    def _was_away(self, now: float) -> bool:
        return now - self._looked_at > max(self._lease_s / 2, 3 * POLL_INTERVAL_S)

    def _note_look(self) -> None:
        now = time.monotonic()
        if self._was_away(now):
            self._patient_until = now + self._lease_s
        self._looked_at = now

    async def _find_missed(self) -> None:
        waiting, mail = await self._database.transact(_waiting_lanes)
        self._looks = {lane: self._looks.get(lane, 0) + 1 for lane in waiting}
        for lane, looks in self._looks.items():
            if looks >= _LOOKS_BEFORE_REPEAT and looks & (looks - 1) == 0:
                self._bus.wake(lane)
        for lane in mail:
            self._sender.wake(lane)
        self._look_count += 1
        if self._look_count % _AUDIT_LOOKS == 0:
            self._audit_news.set()

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
            case LeavingHint(worker):
                self._leaving.add(worker)
                self._link.room = {
                    number: room for number, room in self._link.room.items() if number != worker
                }
                # Its turns go to other workers, some of which may have just started.
                self._look_now.set()
            case QuestionHint():
                self._approvals.look_again()
            case AuditHint():
                self._audit_news.set()
            case JobsHint():
                self._notify_jobs()


def _worker_facts(worker: WorkerInfo) -> dict[str, Any]:
    state = worker.state
    return {
        "number": worker.number,
        "name": worker.name,
        "version": state.get("version"),
        "schema": worker.schema,
        "pid": state.get("pid"),
        "began_at": worker.began_at,
        "seen_s": round(worker.seen_s, 1),
        "state": "ended" if worker.is_ended else state.get("state", "starting"),
        "turns": state.get("lanes"),
        "room": state.get("room"),
        "handled": state.get("handled"),
        "hints_dropped": state.get("dropped"),
        "log": state.get("log"),
    }


def _waiting_lanes(tx: Transaction) -> tuple[list[str], list[str]]:
    return open_work.lanes(tx), outbox.lanes_with_mail(tx)
