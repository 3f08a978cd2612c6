"""A short run of the worker loop; `make crash` is the long one."""

from pathlib import Path

import pytest

from tests.crash.workers import WorkerLoop, WorkerOrder
from tests.nats_server import needs_nats

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("bus", ["notify", pytest.param("nats", marks=needs_nats)])
async def test_worker_faults_lose_nothing_and_mark_every_repeat(tmp_path: Path, bus: str) -> None:
    order = WorkerOrder(kills=12, messages=60, chats=8, seed=11, bus=bus)
    account = await WorkerLoop(order, tmp_path).run()

    print(account.report())
    assert account.is_clean, account.report()
    assert account.kills >= order.kills
    assert account.questions > 0
