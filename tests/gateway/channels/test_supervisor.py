import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from agent.errors import ConfigError
from gateway.channels.base import Accept
from gateway.channels.supervisor import ChannelSupervisor
from gateway.core.channel_events import Batch
from tests.fakes.platform import Platform
from tests.gateway.parts import wait_until

KEY = ("chat", "bad")


class Failing(Platform):
    """Platform whose `receive` fails once for each of its errors."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__("bad")
        self.starts = 0
        self._errors = list(errors)

    async def run(self, accept: Accept) -> None:
        self.starts += 1
        if self._errors:
            raise self._errors.pop(0)
        await asyncio.Event().wait()


async def nowhere(channel: str, account: str, batch: Batch) -> None:
    raise AssertionError("nothing is received here")


@asynccontextmanager
async def receiving(
    bad: Failing, again_after_s: float = 3600
) -> AsyncIterator[tuple[ChannelSupervisor, Callable[[], bool]]]:
    """Run a supervisor with a bad and a good channel.

    The yielded callable returns whether the supervisor and the good channel still run.
    """
    good = Failing()
    channels = {KEY: bad, ("chat", "good"): good}
    supervisor = ChannelSupervisor(channels, again_after_s=again_after_s)
    task = asyncio.create_task(supervisor.run(nowhere))
    await wait_until(lambda: good.starts == 1 and bad.starts)
    try:
        yield supervisor, lambda: not task.done() and good.starts == 1
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def test_rejected_token_is_reported_and_affects_one_channel(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = Failing(ConfigError("telegram.token: it was refused", hint="Set another."))
    async with receiving(bad) as (supervisor, works):
        await wait_until(lambda: supervisor.failures)
        assert supervisor.failures == {KEY: "telegram.token: it was refused. Set another."}
        assert works()
    assert "receives nothing" in caplog.text
    assert bad.starts == 1


async def test_channel_with_a_bug_is_restarted() -> None:
    bad = Failing(ValueError("a bug"), ValueError("again"))
    async with receiving(bad, again_after_s=0.001) as (supervisor, works):
        await wait_until(lambda: bad.starts == 3 and not supervisor.failures)
        assert works()


async def test_status_shows_the_kind_of_bug_and_the_log_has_the_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with receiving(Failing(ValueError("https://host/bot1:TOKEN"))) as (supervisor, works):
        await wait_until(lambda: supervisor.failures)
        assert "ValueError" in supervisor.failures[KEY]
        assert "TOKEN" not in supervisor.failures[KEY]
        assert works()
    assert "bot1:TOKEN" in caplog.text
