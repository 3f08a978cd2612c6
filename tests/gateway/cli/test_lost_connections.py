"""Answers sent into a connection that breaks with its gateway: each is delivered exactly once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.control.client import ControlClient
from gateway.control.service import Service
from tests import fork_server
from tests.fakes.cutting_proxy import CuttingProxy
from tests.fakes.editor import KEY, EditorSetup, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.parts import wait_until

ANSWER = "Forty-two boats went out."


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        setup.set_config(http={"port": 0})
        yield setup


async def until_handed_out(service: Service) -> None:
    """Wait until the gateway considers the answer delivered."""
    async with asyncio.timeout(60):
        while True:
            status = await service.status()
            texts = [
                message.text
                for session in await service.list_sessions()
                for message in await service.load_messages(session.id)
            ]
            if ANSWER in texts and not status["routes_with_mail"] and not status["lanes_busy"]:
                return
            await asyncio.sleep(0.02)


async def lose_the_answer(setup: EditorSetup, ask: Callable[[], Coroutine[Any, Any, str]]) -> str:
    """Return the result of `ask` when its gateway is killed with the answer in flight.

    The gateway is then started again.
    """
    socket, moved = setup.home / "kore.sock", setup.home / "moved.sock"
    setup.model.script(ReplyScript(text=ANSWER, waits_at=0))
    async with setup.gateway() as kill:
        socket.rename(moved)
        async with CuttingProxy(moved, socket) as line, asyncio.TaskGroup() as group:
            answer = group.create_task(ask())
            await wait_until(lambda: setup.model.requests, 60)
            line.hold()
            setup.model.let_go()
            service = await ControlClient.connect(moved)
            assert service is not None
            await until_handed_out(service)
            await kill()
            line.close()
            async with setup.gateway():
                line.cut()
                return await asyncio.wait_for(answer, 60)


async def test_single_turn_gets_the_answer(setup: EditorSetup) -> None:
    async def ask() -> str:
        process = await fork_server.start_piped(
            ["agent", "-m", "how many?"], cwd=setup.project, env=setup.environ()
        )
        try:
            out, _ = await process.communicate()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        assert process.returncode == 0
        return out.decode()

    assert await lose_the_answer(setup, ask) == f"{ANSWER}\n"
    assert len(setup.model.requests) == 1


async def test_editor_gets_the_answer(setup: EditorSetup) -> None:
    async def ask() -> str:
        async with setup.open() as (editor, connection, _):
            opened = await connection.new_session(cwd=str(setup.project), mcp_servers=[])
            assert await setup.ask(connection, opened.session_id, words("how many?")) == "end_turn"
            return editor.text()

    assert await lose_the_answer(setup, ask) == ANSWER
    assert len(setup.model.requests) == 1
