"""Scheduler: a single timer that sleeps until the next job is due.

The code of jobs is imported when the first one exists. The timer uses the monotonic clock and reads
the wall clock twice a minute, because the latter may jump and a laptop may sleep.
"""

import logging
import time
from collections.abc import Callable

from gateway.delivery.outbox_reader import Wait
from gateway.delivery.sender import OutboxSender, wait_for
from gateway.scheduler.job_context import FiredJobs
from gateway.scheduler.service import JobService
from gateway.store.errors import StoreError
from gateway.store.port import Store
from gateway.store.repositories import jobs

log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 30.0
_RETRY_INTERVAL_S = 5.0
# Regular corrections set the clock back by less than this.
_MIN_JUMP_S = 10.0


class JobTimer:
    """Timer of all jobs.

    `wake` starts the work of a lane. `clock` returns Unix time in seconds; `wait` sleeps.
    """

    def __init__(
        self,
        *,
        database: Store,
        jobs: JobService,
        wake: Callable[[str], None],
        sender: OutboxSender,
        clock: Callable[[], float] = time.time,
        wait: Wait = wait_for,
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._wake = wake
        self._sender = sender
        self._clock = clock
        self._wait = wait
        self._latest = 0.0

    async def run(self) -> None:
        """Start jobs when they are due, until cancelled. Waits until there is an audience."""
        news = self._jobs.changed
        await self._jobs.has_audience.wait()
        self._latest = await self._begin()
        while True:
            news.clear()
            due_at = await self._look()
            if due_at is None:
                await news.wait()
                continue
            while not news.is_set() and (left_s := due_at - self._clock()) > 0:
                await self._wait(news, min(_POLL_INTERVAL_S, left_s))
                if self._clock() < self._latest - _MIN_JUMP_S:
                    break
                self._latest = max(self._latest, self._clock())

    async def _begin(self) -> float:
        """Create or remove the heartbeat; return the latest recorded time."""
        context = self._jobs.context
        has_heartbeat = context.schedule.heartbeat_minutes is not None
        try:
            has_jobs, last = await self._database.transact(jobs.timer_state)
            if has_jobs or has_heartbeat:
                await self._database.transact(self._jobs.set_heartbeat, self._clock())
        except StoreError as exc:
            log.error("the scheduler could not load its state: %s", exc)
            return self._clock()
        return last

    async def _look(self) -> float | None:
        """Start due jobs and return the time of the next check."""
        try:
            now = self._clock()
            if now < self._latest - _MIN_JUMP_S:
                log.warning("the clock went back by %.0f s", self._latest - now)
                from gateway.scheduler.firing import shift_clock_back

                await self._database.transact(shift_clock_back, now)
            self._latest = now
            due_at = await self._database.transact(jobs.next_due, self._jobs.context.open_channels)
            if due_at is None or due_at > now:
                return due_at
            from gateway.scheduler.firing import fire_due

            self.wake(await self._database.transact(fire_due, self._jobs.context, now))
        except StoreError as exc:
            log.error("jobs are delayed: %s", exc)
            return self._clock() + _RETRY_INTERVAL_S
        return self._clock()

    def wake(self, fired: FiredJobs) -> None:
        for lane in fired.lanes:
            self._wake(lane)
        for lane in fired.mail_lanes:
            self._sender.wake(lane)
