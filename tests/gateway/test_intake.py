import asyncio
from pathlib import Path

import pytest

from gateway.access import Access
from gateway.channels.base import Batch
from gateway.intake import Intake, Limits, Taken
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, opened, said

ACCESS = Access(None, {("chat", "bot"): ("*",)})


def intake(parts: Parts, limits: Limits) -> Intake:
    return Intake(parts.database, ACCESS, parts.delivery, limits)


async def take(intake: Intake, text: str, offset: int) -> Taken:
    return await intake.take("chat", "bot", Batch([said(text)], next_offset=offset))


async def test_above_the_limit_nothing_is_taken_until_there_is_room(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        full = intake(parts, Limits(waiting=2, look_again_s=0.001))
        await take(full, "a", 1)
        await take(full, "b", 2)
        third = asyncio.create_task(take(full, "c", 3))
        for _ in range(5):
            await parts.rows("SELECT 1")
        assert not third.done()
        assert await parts.rows("SELECT next_offset FROM cursor") == [(2,)]
        await parts.rows("UPDATE inbox SET dead_reason = 'done' WHERE seq = 1")
        async with asyncio.timeout(10):
            assert (await third).lanes == {"chat:bot:1"}
        assert await parts.rows("SELECT next_offset FROM cursor") == [(3,)]


async def test_without_disk_space_nothing_is_taken_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        full = intake(parts, Limits(free_bytes=2**60, look_again_s=0.001))
        waiting = asyncio.create_task(take(full, "a", 1))
        for _ in range(5):
            await parts.rows("SELECT 1")
        assert not waiting.done()
        assert await parts.rows("SELECT 1 FROM cursor") == []
        assert await parts.rows("SELECT 1 FROM inbox") == []
        assert full.obstacle is not None
        assert caplog.text.count(full.obstacle) == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert full.obstacle is None
