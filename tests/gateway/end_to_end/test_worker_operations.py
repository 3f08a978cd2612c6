"""Operation of workers: status, health pages, drain and rolling upgrade."""

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from gateway.app import STOP_TIMEOUT_S
from gateway.control.replacement import REPLACED
from gateway.fanout.notify import NotifyFanout
from gateway.store.postgres.connection import connect
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories.execution.claims import OWNER
from gateway.workers.hints import LaneHint, decode
from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway import stored
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess
from tests.gateway.fanout.buses import joined

_PAGES = re.compile(r"health and metrics at (http://127\.0\.0\.1:\d+)")


@dataclass
class Fleet:
    """Gateway that leaves its turns to two workers, neither of which runs yet."""

    front: GatewayProcess
    workers: list[GatewayProcess]
    address: str

    @property
    def model(self) -> ModelServer:
        return self.front.model

    async def start(self) -> None:
        await self.front.start()
        for worker in self.workers:
            await worker.launch()
        for worker in self.workers:
            await worker.until(lambda worker=worker: "taking turns" in worker.log_text())

    async def status(self) -> list[dict[str, object]]:
        return list((await self.front.status())["workers"]["alive"])

    async def asks(self, chat: int, words: str) -> None:
        """Send a message and wait for its answer.

        Waiting until the gateway is idle is not enough, because a worker may still run the turn.
        """
        await self.front.api.user_says(chat, words)
        await self.front.until(lambda: f"echo: {words}" in self.front.api.answers(chat))

    async def until_alive(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(await self.status()) != count:
                await asyncio.sleep(0.05)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    address = postgres_server.create_database()
    sections = {
        "store": {"url": address, "lease_s": 4},
        "agent": {"workspace": str(tmp_path / "workspace")},
        "access": {"owner": "telegram:1", "roles": {"telegram": "build"}},
    }
    async with BotApi() as api, ModelServer(api_key=KEY) as model:

        def process(name: str, verb: str, *words: str) -> GatewayProcess:
            machine = tmp_path / name
            machine.mkdir()
            parts = (machine, api, model, sections)
            return GatewayProcess(*parts, verb=verb, words=words, runtime_dir=machine)

        front = process("front", "gateway", "--workers", "0")
        workers = [process(f"worker{n}", "worker", "--http-port", "0") for n in range(2)]
        yield Fleet(front, workers, address)
        for worker in (*workers, front):
            if worker.runs:
                worker.signal(signal.SIGKILL)
                await worker.exit_code()
            worker.check_clean()


async def page(
    client: aiohttp.ClientSession, process: GatewayProcess, path: str
) -> tuple[int, str]:
    address = _PAGES.findall(process.log_text())[-1]
    async with client.get(address + path) as response:
        return response.status, await response.text()


async def until_page(
    client: aiohttp.ClientSession, process: GatewayProcess, path: str, words: str
) -> str:
    async with asyncio.timeout(30):
        while words not in (text := (await page(client, process, path))[1]):
            await asyncio.sleep(0.05)
    return text


async def test_status_shows_workers_and_waiting_messages(fleet: Fleet) -> None:
    await fleet.front.start()
    status_result = await fleet.front.kore("status", "--all")
    assert "no worker is running" in status_result.out
    await fleet.front.api.user_says(1, "hello")
    await fleet.front.until(lambda: not fleet.front.api.pending_updates)
    waiting = json.loads((await fleet.front.kore("status", "--json")).out)["workers"]
    assert (waiting["lanes_waiting"], waiting["oldest_waiting_s"] > 0) == (1, True)
    for worker in fleet.workers:
        await worker.launch()
    await fleet.front.until(lambda: "echo: hello" in fleet.front.api.answers(1))
    await fleet.until_alive(2)
    fleet.workers[0].signal(signal.SIGTERM)
    assert await fleet.workers[0].exit_code() == 0
    await fleet.until_alive(1)
    shown = await fleet.front.kore("status", "--all")
    assert shown.code == 0
    rows = [line for line in shown.out.splitlines() if "s ago" in line]
    assert len(rows) == 2
    assert [("ended" in row) for row in rows].count(True) == 1


async def test_workers_and_gateway_serve_pages(fleet: Fleet) -> None:
    result, other = fleet.workers
    # A worker may start only once a gateway has created the tables and released them.
    await result.launch()
    await result.until(lambda: _PAGES.search(result.log_text()))
    async with aiohttp.ClientSession() as client:
        await until_page(client, result, "/healthz", '"ok"')
        assert (await page(client, result, "/livez"))[0] == 200
        assert (await page(client, result, "/readyz")) == (
            503,
            '{"status": "degraded", "broken": ["gateway"]}',
        )
        # A new owner ends workers that joined before it.
        await fleet.front.start()
        await result.until(lambda: "taking turns" in result.log_text())
        await other.launch()
        await other.until(lambda: "taking turns" in other.log_text())
        assert (await page(client, result, "/readyz"))[0] == 200
        await fleet.asks(1, "hi")
        await until_page(client, fleet.front, "/metrics", "kore_workers_alive 2")
        text = await until_page(client, fleet.front, "/metrics", "kore_workers_turns_running 0")
        assert "kore_lanes_waiting 0" in text
        assert "kore_oldest_waiting_seconds 0" in text
        assert "kore_workers_reaped_total 0" in text
        assert "kore_hints_dropped_total 0" in text
        assert text.count("kore_worker_last_beat_seconds{") == 2
        handled = [(await page(client, health, "/metrics"))[1] for health in (result, other)]
        assert sorted("kore_turns_handled_total 1" in text for text in handled) == [False, True]
        # A draining worker reports it at once, and still answers requests.
        fleet.model.script(ReplyScript(text="late", waits_at=0))
        await fleet.front.api.user_says(2, "wait")
        await fleet.front.until(lambda: fleet.model.waiting)
        busy = (
            result if "kore_lanes_busy 1" in (await page(client, result, "/metrics"))[1] else other
        )
        busy.signal(signal.SIGTERM)
        await until_page(client, busy, "/healthz", "draining")
        assert (await page(client, busy, "/readyz"))[0] == 503
        fleet.model.let_go()
        assert await busy.exit_code() == 0
        await fleet.front.until(lambda: fleet.front.api.answers(2) == ["late"])


async def test_killed_worker_is_counted(fleet: Fleet) -> None:
    await fleet.start()
    await fleet.until_alive(2)
    fleet.workers[0].signal(signal.SIGKILL)
    await fleet.workers[0].exit_code()
    async with aiohttp.ClientSession() as client:
        await until_page(client, fleet.front, "/metrics", "kore_workers_reaped_total 1")
        await until_page(client, fleet.front, "/metrics", "kore_workers_alive 1")


async def test_stopped_worker_hands_its_turn_over_by_a_hint(fleet: Fleet) -> None:
    """Without the hint, another worker would take the turn only in a later search."""
    await fleet.start()
    # Wait until the state reported by each worker is known.
    await fleet.until_alive(2)
    call = Call("list_dir", {"path": "."})
    fleet.model.script(ReplyScript(tool_calls=(call,), waits_at=0), "finished")
    async with joined(NotifyFanout(fleet.address, None), "front") as member:
        await fleet.front.api.user_says(1, "look")
        await fleet.front.until(lambda: fleet.model.waiting)
        async with aiohttp.ClientSession() as client:
            first, second = fleet.workers
            text = (await page(client, first, "/metrics"))[1]
            busy = first if "kore_lanes_busy 1" in text else second
            busy.signal(signal.SIGTERM)
            await until_page(client, busy, "/healthz", "draining")
        member.messages.clear()
        fleet.model.let_go()
        await fleet.front.until(lambda: fleet.front.api.answers(1) == ["finished"])
        assert await busy.exit_code() == 0
    hints = [decode(message) for message in member.messages]
    lanes = [hint.lane for hint in hints if isinstance(hint, LaneHint) and hint.to == OWNER]
    assert lanes == ["telegram:123456:1"]


async def test_workers_of_the_previous_version_run_until_they_are_too_old(fleet: Fleet) -> None:
    await fleet.start()
    old, new = fleet.workers
    numbers = {worker: number_of(worker) for worker in fleet.workers}
    (newest,) = stored.read_postgres(fleet.address, "migration", "max(number)")[0]
    # A new gateway ends only the worker whose program is too old for its tables.
    change(fleet.address, "worker", {"schema": 1}, id=numbers[old])
    await fleet.front.stop()
    await fleet.front.start()
    assert await old.exit_code() == REPLACED
    await fleet.asks(1, "one")
    assert [item["number"] for item in await fleet.status()] == [numbers[new]]
    # The next version's gateway has a further migration that these workers understand.
    with closing(connect(fleet.address)) as server:
        tx = PostgresTransaction(server)
        stored.add(tx, "migration", number=newest + 1, applied_at=time.time())
    await fleet.asks(1, "two")
    await old.launch()
    await fleet.until_alive(2)
    # And a migration that they do not understand.
    change(fleet.address, "owner", {"oldest_schema": newest + 1})
    new.signal(signal.SIGTERM)
    assert await new.exit_code() == 0
    await new.launch()
    assert await new.exit_code() == 1
    assert "Upgrade the gateway first, then its workers." in new.output()


def number_of(worker: GatewayProcess) -> int:
    return int(re.findall(r"worker (\d+) joins", worker.log_text())[-1])


def change(address: str, table: str, values: dict[str, object], **where: object) -> None:
    with closing(connect(address)) as server:
        assert stored.change(PostgresTransaction(server), table, values, **where) == 1


@pytest.mark.slow
async def test_long_call_is_interrupted_and_repeated_elsewhere(fleet: Fleet) -> None:
    """A drain waits for the call for a limited time."""
    await fleet.start()
    await fleet.until_alive(2)
    fleet.model.script(ReplyScript(text="never", waits_at=0))
    await fleet.front.api.user_says(1, "wait")
    await fleet.front.until(lambda: fleet.model.waiting)
    began_at = time.monotonic()
    for worker in fleet.workers:
        worker.signal(signal.SIGTERM)
    for worker in fleet.workers:
        assert await worker.exit_code() == 0
    assert time.monotonic() - began_at < STOP_TIMEOUT_S + 5
    await fleet.workers[0].launch()
    await fleet.front.until(lambda: fleet.front.api.answers(1) == ["echo: wait"])
