"""The database is unavailable to a gateway and its worker for longer than their leases on it."""

import asyncio
import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess
from tests.gateway.store.postgres.cutting_proxy import cutting_proxy
from tests.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.slow,
]
LEASE_S = 5.0
# The gateway looks for dead workers every `_SCAN_INTERVAL_S`.
_AWAY_S, _SCAN_INTERVAL_S = 6.0, 1.5


async def test_worker_continues_its_turn_after_a_database_outage(
    tmp_path: Path,
) -> None:
    """This also applies if the gateway reconnects first."""
    front, worker_home = tmp_path / "front", tmp_path / "worker"
    front.mkdir()
    worker_home.mkdir()
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        with (
            closing(PostgresServer(is_durable=True)) as server,
            cutting_proxy(server.folder, worker_home) as proxy,
        ):
            address = server.create_database()
            database = address.partition("kore@/")[2].partition("?")[0]
            store = {"url": address, "lease_s": LEASE_S}
            gateway = GatewayProcess(
                *(front, api, model, {"store": store}),
                words=["--workers", "0"],
                runtime_dir=front,
            )
            there = {"store": {**store, "url": proxy.address(database)}}
            worker = GatewayProcess(
                *(worker_home, api, model, there), verb="worker", runtime_dir=worker_home
            )
            async with gateway:
                await worker.launch()
                model.script(ReplyScript(text="still here", waits_at=0))
                await api.user_says(1, "hi")
                await worker.until(lambda: model.waiting)

                proxy.stall()
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(_AWAY_S)
                await asyncio.to_thread(server.start)
                await api.user_says(2, "/help")
                await gateway.until(lambda: api.answers(2))
                await asyncio.sleep(_SCAN_INTERVAL_S)
                proxy.resume()
                model.let_go()
                await worker.until(lambda: api.answers(1) == ["still here"])

                worker.signal(signal.SIGTERM)
                assert await worker.exit_code() == 0, worker.log_text()
                worker.check_clean()
