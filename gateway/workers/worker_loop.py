"""Main loop of a worker: takes hints and searches for work whose hint was lost."""

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from agent.version import VERSION
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.bus import MessageBus
from gateway.delivery.sender import wait_for
from gateway.fanout.base import Fanout
from gateway.sessions.background_work import BackgroundWork
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.execution import open_work
from gateway.turns.usage.turn_log import TurnLog
from gateway.workers.hints import (
    Hint,
    LaneHint,
    PeopleHint,
    SessionEndHint,
    SettledHint,
    StopHint,
    decode,
)
from gateway.workers.links import choose_worker

log = logging.getLogger(__name__)

# Interval between searches for work whose hint was lost.
POLL_INTERVAL_S = 2.0
# Limits on waiting lanes read at a time, and on lanes taken at a time.
_MAX_LANES_READ, _MAX_LANES_SERVED = 200, 50
# Number of checks between reloads of facts that commands change, in case a hint was lost.
_REFRESH_LOOKS = 15
# Number of checks for which a lane is left to the worker that the lane's name maps to.
_LOOKS_OF_ANOTHER = 3
# A worker that has not read from the database for this long counts as disconnected.
_STALE_S = 10.0
# In the state "waiting", the worker waits for a gateway that leaves turns to workers.
WorkerState = Literal["waiting", "taking turns", "draining"]


class WorkerLoop:
    """Loop of a worker.

    `read_workers` returns the numbers of all workers, or None while no gateway leaves turns to
    them. `say` publishes this worker's load; `refresh` reloads facts that commands change.
    """

    def __init__(  # noqa: PLR0913 - the parts that hints are for, by name
        self,
        *,
        number: int,
        database: Store,
        read_workers: Callable[[Transaction], Sequence[int] | None],
        fanout: Fanout,
        bus: MessageBus,
        approvals: ApprovalCoordinator,
        background: BackgroundWork,
        turn_log: TurnLog,
        say: Callable[[Mapping[str, Any]], None],
        refresh: Callable[[], Awaitable[None]],
        max_turns: int,
    ) -> None:
        self._fanout = fanout
        self._number = number
        self._database = database
        self._read_workers = read_workers
        self._bus = bus
        self._approvals = approvals
        self._background = background
        self._turn_log = turn_log
        self._say = say
        self._refresh = refresh
        self._max_turns = max_turns
        self._group: asyncio.TaskGroup | None = None
        self._look_now = asyncio.Event()
        self._has_front: bool | None = None
        self._is_stopping = False
        self._looked_at: float | None = None
        self._look_count = 0
        self._has_gap = False
        # Number of checks for which each lane has waited.
        self._looks: dict[str, int] = {}
        fanout.subscribe("workers", self._receive, self._note_gap)

    def stop(self) -> None:
        """Take no more work; the next heartbeat informs the front."""
        self._is_stopping = True
        self._say(self.facts())
        self._look_now.set()

    @property
    def state(self) -> WorkerState:
        if self._is_stopping:
            return "draining"
        return "taking turns" if self._has_front else "waiting"

    @property
    def reaches_database(self) -> bool:
        """True if the last read from the database was recent."""
        looked_at = self._looked_at
        return looked_at is not None and time.monotonic() - looked_at < _STALE_S

    def facts(self) -> dict[str, Any]:
        """Return the state of this worker for the next heartbeat."""
        lanes_here = self._bus.lanes
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "state": self.state,
            "lanes": lanes_here,
            "room": 0 if self._is_stopping else max(0, self._max_turns - lanes_here),
            "handled": self._bus.handled_count,
            "dropped": self._fanout.dropped_count,
            "log": self._turn_log.facts(),
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                while True:
                    self._look_now.clear()
                    try:
                        await self._look()
                    except StoreError as exc:
                        log.warning("this worker cannot check for work: %s", exc)
                    pause_s = POLL_INTERVAL_S * random.uniform(0.75, 1.25)  # noqa: S311 - jitter
                    await wait_for(self._look_now, pause_s)
            finally:
                # Hints still arrive while the worker suspends its turns.
                self._group = None

    async def _look(self) -> None:
        self._say(self.facts())
        workers, lanes, stopped = await self._database.transact(self._read)
        self._looked_at = time.monotonic()
        has_front = workers is not None
        if has_front != self._has_front:
            self._has_front = has_front
            log.info("taking turns" if has_front else "waiting for `kore gateway --workers`")
        for lane in stopped:
            self._bus.stop_now(lane)
        if workers is None or self._is_stopping:
            return
        if self._has_gap or self._look_count % _REFRESH_LOOKS == 0:
            self._has_gap = False
            await self._refresh()
        self._look_count += 1
        await self._approvals.settle_missed()
        await self._bus.isolate()
        self._looks = {lane: self._looks.get(lane, 0) + 1 for lane in lanes}
        random.shuffle(lanes)
        for lane in [text for text in lanes if self._is_due(text, workers)][:_MAX_LANES_SERVED]:
            self._take(lane)

    def _is_due(self, lane: str, workers: Sequence[int]) -> bool:
        """Return whether this worker takes the lane in this check.

        It skips the first check, because the hint may still arrive, and leaves lanes to the worker
        that their names map to. If every worker tried to take every lane, most of them would be too
        late.
        """
        is_own = choose_worker(lane, workers) == self._number
        return self._looks[lane] > (1 if is_own else _LOOKS_OF_ANOTHER)

    def _read(self, tx: Transaction) -> tuple[Sequence[int] | None, list[str], list[str]]:
        workers = self._read_workers(tx)
        if workers is None:
            return None, [], []
        # The front passes on the lanes beyond the limit once these make room for them.
        lanes = [
            lane for lane in open_work.lanes(tx, _MAX_LANES_READ) if not open_work.is_console(lane)
        ]
        return workers, lanes, open_work.stopped_lanes(tx, self._number)

    def _receive(self, message: bytes) -> None:
        hint = decode(message)
        if hint is not None:
            self._follow(hint)

    def _follow(self, hint: Hint) -> None:
        match hint:
            case LaneHint(lane, to) if to == self._number:
                self._take(lane)
            case StopHint():
                # Look up in the database which turns must stop, because an old hint may have been
                # replayed.
                self._look_now.set()
            case SettledHint(nonce, value):
                self._begin(partial(self._approvals.settle, nonce, value), "an answer")
            case SessionEndHint(session):
                self._begin(partial(self._background.end_here, session), "the end of a session")
            case PeopleHint():
                self._note_gap()

    def _take(self, lane: str) -> None:
        has_room = not self._is_stopping and self._bus.lanes < self._max_turns
        if has_room or self._bus.is_at_work(lane):
            self._bus.wake(lane)

    def _begin(self, work: Callable[[], Awaitable[object]], name: str) -> None:
        if self._group is not None:
            self._group.create_task(_logged(work, name), name=name)

    def _note_gap(self) -> None:
        """Note that hints may have been missed and that commands may have changed facts."""
        self._has_gap = True
        self._look_now.set()


async def _logged(work: Callable[[], Awaitable[object]], name: str) -> None:
    try:
        await work()
    except StoreError as exc:
        log.warning("%s could not be applied: %s", name, exc)
