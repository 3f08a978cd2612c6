"""A single round of the soak test; `make soak` is the long one."""

from pathlib import Path

import pytest

from tests.gateway.server.browser import CHROMIUM
from tests.soak_web.soak import open_soak

pytest.importorskip("playwright", reason="playwright is not installed")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
async def test_round_of_every_action_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with open_soak(tmp_path, seed=7) as soak:
        report = await soak.run(float("inf"), rounds=1)
    print(report.in_words())
    assert report.faults == []
    assert min(report.done.values()) == 1
    assert report.messages >= 8
