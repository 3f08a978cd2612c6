"""A worker's own part: it takes hints, and looks for itself at what no hint told of."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.bus.bus import MessageBus
from gateway.fanout.base import Fanout
from gateway.sessions.background_work import BackgroundWork
from gateway.store.errors import StoreError
from gateway.store.port import Store, Transaction
from gateway.store.repositories.execution import open_work
from gateway.workers.hints import (
    Hint,
    LaneHint,
    PeopleHint,
    SessionEndHint,
    SettledHint,
    StopHint,
    decode,
)

log = logging.getLogger(__name__)

# So often it looks for what no hint told of.
LOOK_S = 2.0
# No more lanes are looked at than that, of all that wait.
_MOST = 50
# A lane that is another worker's by its name is left to it for so many looks.
_PATIENCE = 3


class WorkerLoop:
    """`run` works until it is cancelled. `say` tells the others how much there is to do here;
    `refresh` reads again what commands change."""

    def __init__(  # noqa: PLR0913 - the parts that hints are for, by name
        self,
        *,
        number: int,
        database: Store,
        fanout: Fanout,
        bus: MessageBus,
        approvals: ApprovalCoordinator,
        background: BackgroundWork,
        say: Callable[[Mapping[str, Any]], None],
        refresh: Callable[[], Awaitable[None]],
        most_turns: int,
    ) -> None:
        self._number = number
        self._database = database
        self._bus = bus
        self._approvals = approvals
        self._background = background
        self._say = say
        self._refresh = refresh
        self._most_turns = most_turns
        self._group: asyncio.TaskGroup | None = None
        self._look_now = asyncio.Event()
        self._has_front: bool | None = None
        self._is_stopping = False
        # Of lanes that wait, in how many looks they did.
        self._seen: dict[str, int] = {}
        fanout.subscribe("workers", self._receive, self._note_gap)

    def stop(self) -> None:
        """Nothing new is taken any more, and the front is told so with the next beat."""
        self._is_stopping = True
        self._look_now.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                self._look_now.clear()
                try:
                    await self._look()
                except StoreError as exc:
                    log.warning("this worker cannot look for work: %s", exc)
                await _first(self._look_now, LOOK_S * random.uniform(0.75, 1.25))  # noqa: S311 - jitter

    async def _look(self) -> None:
        lanes_here = self._bus.lanes
        room = 0 if self._is_stopping else self._most_turns - lanes_here
        self._say({"lanes": lanes_here, "room": room, "handled": self._bus.handled_count})
        has_front, lanes, stopped = await self._database.transact(self._read)
        if has_front != self._has_front:
            self._has_front = has_front
            log.info("taking turns" if has_front else "waiting for `kore gateway --workers`")
        for lane in stopped:
            self._bus.stop_now(lane)
        if not has_front or self._is_stopping:
            return
        await self._approvals.settle_missed()
        await self._bus.isolate()
        self._seen = {lane: self._seen.get(lane, 0) + 1 for lane in lanes}
        random.shuffle(lanes)
        for lane in lanes[:_MOST]:
            # The hint for a new one may be on its way to another.
            if self._seen[lane] > 1:
                self._take(lane)

    def _read(self, tx: Transaction) -> tuple[bool, list[str], list[str]]:
        if not open_work.is_left_to_workers(tx):
            return False, [], []
        lanes = [one for one in open_work.lanes(tx) if not open_work.is_console(one)]
        return True, lanes, open_work.stopped_lanes(tx, self._number)

    def _receive(self, message: bytes) -> None:
        hint = decode(message)
        if hint is not None:
            self._follow(hint)

    def _follow(self, hint: Hint) -> None:
        match hint:
            case LaneHint(lane, to) if to == self._number:
                self._take(lane)
            case StopHint(lane):
                self._bus.stop_now(lane)
            case SettledHint(nonce, value):
                self._begin(self._approvals.settle(nonce, value), "an answer")
            case SessionEndHint(session):
                self._begin(self._background.end_here(session), "the end of a session")
            case PeopleHint():
                self._begin(self._refresh(), "people")

    def _take(self, lane: str) -> None:
        has_room = not self._is_stopping and self._bus.lanes < self._most_turns
        if has_room or self._bus.is_at_work(lane):
            self._bus.wake(lane)

    def _begin(self, work: Awaitable[object], name: str) -> None:
        if self._group is not None:
            self._group.create_task(_logged(work, name), name=name)

    def _note_gap(self) -> None:
        """Hints may have been missed."""
        self._begin(self._refresh(), "people")
        self._look_now.set()


async def _logged(work: Awaitable[object], name: str) -> None:
    try:
        await work
    except StoreError as exc:
        log.warning("%s could not be taken in: %s", name, exc)


async def _first(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
