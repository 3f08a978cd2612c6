"""Scheduler driven by a clock that a test sets."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.providers.base import Provider
from agent.providers.scripted import Step
from gateway.resources import Timing
from tests.gateway.parts import Parts, cancel_and_wait, chat_message, running, wait_until
from tests.gateway.stored import below


class Clock:
    """The machine's clock plus `ahead` seconds."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead
        self.looks = 0

    def time(self) -> float:
        self.looks += 1
        return time.time() + self.ahead

    async def wait(self, wake: asyncio.Event, seconds: float) -> None:
        until, ahead = self.time() + seconds, self.ahead
        while not wake.is_set() and time.time() + self.ahead < until and self.ahead == ahead:
            await asyncio.sleep(0.005)


class ScheduledParts:
    """Parts of a gateway with a scheduler that runs by `clock`; `at` is a chat of the platform."""

    def __init__(self, parts: Parts, clock: Clock) -> None:
        self.parts = parts
        self.clock = clock
        self.jobs = parts.app.jobs

    async def answer_to(self, text: str, chat: str = "1", **more: Any) -> str:
        """Send a message to the chat and return the answer to it."""
        before = len(self.texts(chat))
        await self.parts.bus.submit(chat_message(text, chat, **more))
        await wait_until(lambda: len(self.texts(chat)) > before)
        return self.texts(chat)[-1]

    def texts(self, chat: str = "1") -> list[str]:
        return [message.text for message in self.parts.platform.chats[chat]]

    async def until_shown(self, count: int, chat: str = "1") -> list[str]:
        await wait_until(lambda: len(self.texts(chat)) >= count, 20)
        return self.texts(chat)

    async def states(self, job: int = 1) -> list[tuple[Any, ...]]:
        return await self.parts.stored("job_run", "state", job=job, order="at")

    async def wait_until_idle(self) -> None:
        """Wait until the scheduler has processed everything that is due now."""
        channels = self.jobs.context.open_channels
        while any(
            f"{channel}:{account}" in channels
            for channel, account in await self.parts.stored(
                "job", "channel", "account", state="on", due_at=below(self.clock.time())
            )
        ):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def with_timer(
    folder: Path,
    provider: Provider | Sequence[Step] = (),
    *,
    clock: Clock | None = None,
    **more: Any,
) -> AsyncIterator[ScheduledParts]:
    clock = clock or Clock()
    timing = Timing(job_clock=clock.time, job_wait=clock.wait)
    async with running(folder, provider, timing=timing, **more) as parts:
        parts.app.jobs.start_firing()
        task = asyncio.create_task(parts.app.timer.run())
        try:
            yield ScheduledParts(parts, clock)
        finally:
            await cancel_and_wait(task)
