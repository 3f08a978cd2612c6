"""Stopped worker whose transaction has locked rows."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest_asyncio

from gateway.control.replacement import REPLACED
from gateway.core.addresses import application_name
from gateway.store.postgres.connection import connect
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY
from tests.gateway.workers.worker_group import LEASE_S, WorkerGroup

CHAT = 7
# Far below the timeout after which only the server ends a stopped process.
_REPLACED_S = LEASE_S + 12.0
_WAITS_FOR_LOCK = (
    "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
)


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> AsyncIterator[WorkerGroup]:
    model_server.api_key = KEY
    async with WorkerGroup(tmp_path, bot_api, model_server) as group:
        yield group


async def test_worker_that_is_stopped_within_a_transaction_is_replaced_after_its_lease(
    group: WorkerGroup,
) -> None:
    group.model.script(ReplyScript(waits_at=0))
    await group.api.user_says(CHAT, "go")
    victim = await group.holder(CHAT)
    await group.front.until(lambda: group.model.waiting)
    (name,) = (await group.rows("worker", "name", id=group.number(victim)))[0]
    with closing(connect(group.url)) as holder, closing(connect(group.url)) as observer:
        # Changes of the turn wait; references to it do not.
        holder.execute("BEGIN; SELECT id FROM turn FOR NO KEY UPDATE")
        group.model.let_go()

        async def victim_waits() -> bool:
            rows = await asyncio.to_thread(observer.execute, _WAITS_FOR_LOCK)
            return (application_name(str(name)),) in rows.fetchall()

        await group.until(victim_waits)
        victim.signal(signal.SIGSTOP)
        # The rows are now locked by a stopped process.
        holder.execute("ROLLBACK")
    stopped_at = time.monotonic()
    await group.front.until(lambda: group.api.answers(CHAT) == ["echo: go"])
    assert time.monotonic() - stopped_at < _REPLACED_S
    assert await group.answers_to(CHAT + 1, "and you?") == ["echo: and you?"]
    victim.signal(signal.SIGCONT)
    assert await victim.exit_code() == REPLACED
