"""Two gateways on a PostgreSQL database: one works, the other waits, and either may die."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.control.replacement import REPLACED
from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess

Pair = tuple[GatewayProcess, GatewayProcess]
STANDS_BY = "standing by"


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Yield two gateways with separate homes, which look like two machines to Kore."""
    store = {"url": postgres_server.create_database(), "lease_s": 2}
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        gateways = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            machine = tmp_path / name
            own = {"words": ["--standby"], "runtime_dir": machine}
            gateways.append(GatewayProcess(machine, api, model, {"store": store}, **own))
        first, second = gateways
        yield first, second
        for gateway in gateways:
            if gateway.runs:
                gateway.signal(signal.SIGCONT)
                await gateway.kill()
            gateway.check_clean()


async def stand_by(gateway: GatewayProcess) -> None:
    """Start the gateway while the other is at work, and wait until it is on standby."""
    count = gateway.log_text().count(STANDS_BY)
    await gateway.launch()
    await gateway.until(lambda: gateway.log_text().count(STANDS_BY) > count)


async def kill_at_work(first: GatewayProcess, second: GatewayProcess, words: str) -> None:
    """Kill the first gateway in the middle of a turn, which the second then answers."""
    model, api = first.model, first.api
    count = len(model.requests)
    model.latency_s = 60.0
    await api.user_says(1, words)
    await first.until(lambda: len(model.requests) > count)
    await first.kill()
    model.latency_s = 0.0
    await second.until(lambda: f"echo: {words}" in api.answers(1))
    await second.idle()


async def test_standby_replaces_a_killed_gateway(pair: Pair) -> None:
    first, second = pair
    await first.start()
    for words in ("one", "two", "three"):
        await stand_by(second)
        await kill_at_work(first, second, words)
        first, second = second, first
    assert first.api.answers(1) == ["echo: one", "echo: two", "echo: three"]


async def test_stopped_gateway_is_replaced_and_ends_when_resumed(pair: Pair) -> None:
    first, second = pair
    await first.start()
    await first.api.user_says(1, "one")
    await first.idle()
    await stand_by(second)
    first.signal(signal.SIGSTOP)
    await first.api.user_says(1, "two")
    await second.until(lambda: "echo: two" in second.api.answers(1))
    await second.idle()
    first.signal(signal.SIGCONT)
    assert await first.exit_code() == REPLACED
    assert "for longer than store.lease_s" in first.log_text()
    await second.api.user_says(1, "three")
    await second.idle()
    assert second.api.answers(1) == ["echo: one", "echo: two", "echo: three"]


async def test_standby_can_be_stopped(pair: Pair) -> None:
    first, second = pair
    await first.start()
    await stand_by(second)
    second.signal(signal.SIGTERM)
    assert await second.exit_code() == 0
    await first.api.user_says(1, "one")
    await first.idle()
    assert first.api.answers(1) == ["echo: one"]
