"""Session of a long task: a single turn within the remaining hours."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from agent.records import frozen
from gateway.cli.chat.long_task_options import LongTaskOptions
from gateway.cli.chat.long_task_progress import LongTaskProgress, ProgressFile
from gateway.cli.chat.one_shot import Ask, OneShotTurn
from gateway.cli.chat.service_connection import ServiceConnection

# Interval for saving the time of a running session.
BEAT_S = 10.0


@frozen
class SessionOutcome:
    """Exit code of a session's turn, its stop reason, and the total time so far."""

    code: int
    stop_reason: str | None
    total_s: float


@frozen
class LongTaskSession:
    """Runs the sessions of a task one after the other; `clock` is monotonic time in seconds."""

    connection: ServiceConnection
    plan: LongTaskOptions
    progress_file: ProgressFile
    ask: Ask | None
    note_interval_s: float
    clock: Callable[[], float]

    def left_s(self, progress: LongTaskProgress) -> float:
        hours = self.plan.max_hours
        return float("inf") if hours is None else hours * 3600 - progress.worked_s

    async def work(
        self, text: str, progress: LongTaskProgress, interrupted: asyncio.Event
    ) -> SessionOutcome:
        """Run `text` as a turn in a new session; a person or the time limit may stop it."""
        # The turn accepts a single event, so that both stops have to share it.
        stop = asyncio.Event()
        timer = None
        if (left_s := self.left_s(progress)) != float("inf"):
            timer = asyncio.get_running_loop().call_later(left_s, stop.set)
        relay = asyncio.create_task(_forward(interrupted, stop))
        began = self.clock()
        try:
            code, stopped = await self._turn(text, stop, progress)
        finally:
            relay.cancel()
            await asyncio.wait({relay})
            if timer is not None:
                timer.cancel()
        return SessionOutcome(code, stopped, progress.worked_s + self.clock() - began)

    async def _turn(
        self, text: str, stop: asyncio.Event, progress: LongTaskProgress
    ) -> tuple[int, str | None]:
        """Run the turn; return the exit code and the stop reason."""
        if self.plan.request.project is not None:
            self.plan.request.project.forget()
        order = replace(self.plan.request, text=text)
        turn = OneShotTurn(self.connection, order, sys.stdout, sys.stderr, self.ask)
        under_way = replace(progress, lane=turn.lane)
        self.progress_file.write(under_way)
        beat = asyncio.create_task(self._note(under_way))
        try:
            code = await turn.run(stop)
        finally:
            beat.cancel()
            await asyncio.wait({beat})
        return code, turn.stop_reason

    async def _note(self, progress: LongTaskProgress) -> None:
        """Save the progress regularly: a kill loses at most one interval of working time."""
        began = self.clock()
        while True:
            await asyncio.sleep(self.note_interval_s)
            with suppress(OSError):
                self.progress_file.write(
                    replace(progress, worked_s=progress.worked_s + self.clock() - began)
                )


async def _forward(first: asyncio.Event, second: asyncio.Event) -> None:
    await first.wait()
    second.set()
