"""Starts and ends of workers that a gateway supervises, and of a gateway with separate workers."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

from gateway.control.replacement import REPLACED
from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, GatewayProcess
from tests.gateway.workers.worker_group import WorkerGroup
from tests.processes import processes

CHAT = 7


def children(gateway: GatewayProcess) -> list[int]:
    """Return the worker processes that a gateway supervises."""
    return processes(f" worker --home {gateway.home}")


async def test_gateway_restarts_its_workers_and_ends_them(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    model_server.api_key = KEY
    group = WorkerGroup(tmp_path, bot_api, model_server, count=0)
    front = group.front = group.process("keeper", "gateway", ["--workers", "2"])

    async def two_count() -> bool:
        return len(await group.rows("worker", "id", is_ended=0)) == 2

    async def none_takes_more() -> bool:
        states = await group.rows("worker", "state", is_ended=0)
        return all(json.loads(state).get("room") == 0 for (state,) in states)

    await front.start()
    try:
        await group.until(two_count)
        assert await group.answers_to(CHAT, "hi") == ["echo: hi"]
        # SIGTERM in the middle of an answer: no attempt is charged, and the turn continues later.
        look = ReplyScript(tool_calls=(Call("list_dir", {"path": "."}),), waits_at=0)
        model_server.script(look)
        await bot_api.user_says(CHAT, "go")
        await front.until(lambda: model_server.waiting)
        front.signal(signal.SIGTERM)
        await group.until(none_takes_more)
        model_server.let_go()
        assert await front.ended() == 0, front.log_text()
        assert not children(front)
        assert await group.rows("turn", "attempts", "interruptions", state="running") == [(1, 0)]

        await front.start()
        await front.until(lambda: bot_api.answers(CHAT)[-1] == "echo: go")
        await group.idle()

        first, second = sorted(children(front))
        os.kill(first, signal.SIGKILL)
        # The killed process is still listed for a moment.
        await front.until(lambda: first not in children(front) and len(children(front)) == 2)
        assert second in children(front)

        await front.kill()
        deadline = time.monotonic() + 20
        while children(front):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
    finally:
        if front.runs:
            await front.kill()
        for child in children(front):
            os.kill(child, signal.SIGKILL)
    front.check_clean()


async def test_gateway_without_workers_fences_them_and_hands_back(
    tmp_path: Path, bot_api: BotApi, model_server: ModelServer
) -> None:
    model_server.api_key = KEY
    group = WorkerGroup(tmp_path, bot_api, model_server)
    alone = group.process("alone", "gateway")
    async with group:
        model_server.script(ReplyScript(text="never", waits_at=0))
        await bot_api.user_says(CHAT, "go")
        await group.holder(CHAT)
        await group.front.until(lambda: model_server.waiting)
        await group.front.kill()
        await alone.start()
        for worker in group.workers:
            assert await worker.exit_code() == REPLACED, worker.log_text()
        await alone.until(lambda: bot_api.answers(CHAT) == ["echo: go"])
        await alone.idle()
        assert await group.rows("turn", "worker", state="done") == [(None,)]
        # A worker that starts in the meantime waits for a front.
        waiting = group.workers[0]
        await group.launch(waiting)
        await waiting.until(lambda: "waiting for `kore gateway --workers`" in waiting.output())
        assert await alone.answers_to(CHAT, "still you?") == ["echo: go", "echo: still you?"]
        model_server.script(ReplyScript(text="never", waits_at=0))
        await bot_api.user_says(CHAT, "and now?")
        await alone.until(lambda: model_server.waiting)
        await alone.kill()
        await group.front.start()
        # This front leaves registered workers alone, including those that started before it.
        assert waiting.runs
        await group.front.until(lambda: bot_api.answers(CHAT)[-1] == "echo: and now?")
        await group.idle()
        (last, *_) = await group.rows("turn", "worker", order="id DESC")
        assert last == (group.number(waiting),)
