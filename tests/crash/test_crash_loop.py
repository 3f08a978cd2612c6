"""A short run of the crash loop; `make crash` is the long one."""

from pathlib import Path

import pytest

from tests.crash.loop import CrashLoop, Order


async def test_four_kills_lose_nothing_and_mark_every_repeat(tmp_path: Path) -> None:
    account = await CrashLoop(Order(kills=4, messages=20, chats=3, seed=7), tmp_path).run()
    assert account.is_clean, account.report()
    assert account.kills >= 4


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_fifty_kills_lose_nothing_and_mark_every_repeat(tmp_path: Path) -> None:
    account = await CrashLoop(Order(kills=50, messages=250, chats=6, seed=7), tmp_path).run()

    print(account.report())
    assert account.is_clean, account.report()
    assert account.kills >= 50
    assert account.questions > 10
    assert account.steered > 0
    assert account.jumps > 0
    assert account.troubles > 0
    assert account.bursts > 0
    assert account.stops > 0
    assert account.met > 0
