"""One-sentence errors of a worker that cannot start, and of a gateway that cannot have workers."""

import base64
import secrets
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.store.postgres.connection import connect
from gateway.store.postgres.migrator import SCHEMA
from gateway.store.postgres.transaction import PostgresTransaction
from tests import postgres_server
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway import stored
from tests.gateway.end_to_end.gateway_process import GatewayProcess

KEYS = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("ONE_KEY", "TWO_KEY")}


@pytest.fixture
def process(tmp_path: Path, bot_api: BotApi, model_server: ModelServer) -> GatewayProcess:
    return GatewayProcess(tmp_path, bot_api, model_server, environ=KEYS)


async def refused(
    process: GatewayProcess, *words: str, store: Mapping[str, Any], code: int = 1
) -> str:
    """Return the error, which is one sentence with a hint below."""
    process.configure({"store": store})
    ran = await process.kore(*words)
    assert (ran.code, ran.out) == (code, ""), ran
    return ran.err


async def test_sqlite_rejects_workers(process: GatewayProcess) -> None:
    store = {"url": f"sqlite:///{process.database}"}
    for words, subject in (
        (["worker"], "workers need"),
        (["gateway", "--workers", "1"], "--workers needs"),
    ):
        text = await refused(process, *words, store=store, code=2)
        assert f"{subject} a database that several processes can work on" in text
        assert "set store.url to a PostgreSQL database" in text


async def test_worker_creates_no_tables(process: GatewayProcess) -> None:
    # The server's default database, which has none of Kore's tables.
    url = postgres_server.server().address("postgres")
    text = await refused(process, "worker", store={"url": url})
    assert "has no tables for workers yet" in text
    assert "Start `kore gateway --workers 0` of this version first" in text


def pretend(url: str, number: int, oldest: int) -> None:
    """Make `number` the schema of the database, and `oldest` the oldest version of a worker."""
    with closing(connect(url)) as server, server.transaction():
        tx = PostgresTransaction(server)
        stored.delete(tx, "migration")
        stored.add(tx, "migration", number=number, applied_at=time.time())
        stored.change(tx, "owner", {"oldest_schema": oldest})


async def test_worker_of_another_version_waits_for_the_gateway(
    process: GatewayProcess, tmp_path: Path
) -> None:
    upgrade = "Upgrade the gateway first, then its workers."
    url = postgres_server.create_database()
    pretend(url, SCHEMA.newest - 1, SCHEMA.newest)
    text = await refused(process, "worker", store={"url": url})
    assert f"of another version of Kore (schema {SCHEMA.newest - 1}; this version supports" in text
    assert upgrade in text

    url = postgres_server.create_database()
    pretend(url, SCHEMA.newest + 1, SCHEMA.newest + 1)
    text = await refused(process, "worker", store={"url": url})
    assert f"(schema {SCHEMA.newest + 1}; this version supports {SCHEMA.newest})" in text
    assert upgrade in text


async def test_worker_of_the_previous_version_accepts_newer_tables(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    url = postgres_server.create_database()
    pretend(url, SCHEMA.newest + 1, SCHEMA.newest)
    store = {"store": {"url": url}}
    worker = GatewayProcess(tmp_path, bot_api, model_server, store, verb="worker")
    await worker.launch()
    try:
        await worker.until(lambda: "waiting for `kore gateway --workers`" in worker.output())
        await worker.stop()
    finally:
        if worker.runs:
            await worker.kill()
    worker.check_clean()


async def test_worker_needs_the_key_of_the_data(process: GatewayProcess) -> None:
    url = postgres_server.create_database()
    process.configure({"store": {"url": url, "encryption_key_env": "ONE_KEY"}})
    async with process:
        pass
    text = await refused(process, "worker", store={"url": url, "encryption_key_env": "TWO_KEY"})
    assert "a different key from the one in TWO_KEY" in text
    text = await refused(process, "worker", store={"url": url})
    assert "encrypted" in text
    with closing(connect(url)) as server:
        assert stored.count(PostgresTransaction(server), "worker") == 0
