"""Editors while another process takes over the data."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.editor import KEY, EditorSetup, words
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript
from tests.gateway.parts import wait_until

TEXT = "One two three four five six seven."


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[EditorSetup]:
    async with ModelServer(api_key=KEY) as model:
        yield EditorSetup(tmp_path, model)


async def test_only_missing_text_is_sent_after_a_killed_gateway(
    setup: EditorSetup,
) -> None:
    async with setup.gateway() as kill, setup.open() as (editor, connection, _):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        streamed = asyncio.Event()
        editor.on_update = lambda update: streamed.set() if editor.text() else None
        setup.model.script(ReplyScript(text=TEXT, pieces=6, waits_at=3), TEXT)
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            prompt = group.create_task(setup.ask(connection, session, words("count")))
            await streamed.wait()
            assert TEXT.startswith(editor.text())
            assert editor.text() != TEXT
            await kill()
            assert await prompt == "end_turn"
        assert len(setup.model.requests) == 2
        assert editor.text() == TEXT


async def test_menus_and_lists_work_while_a_gateway_takes_over(setup: EditorSetup) -> None:
    setup.add_model("big", "openai/large")
    async with setup.open() as (_, connection, _process):
        session = (await connection.new_session(cwd=str(setup.project), mcp_servers=[])).session_id
        calls = 0

        async def list_and_choose() -> None:
            nonlocal calls
            while True:
                await connection.list_sessions(cwd=str(setup.project))
                for option, value in (("model", "big"), ("mode", "plan")):
                    await connection.set_config_option(
                        config_id=option, session_id=session, value=value
                    )
                calls += 1

        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            callers = [group.create_task(list_and_choose()) for _ in range(3)]
            async with setup.gateway():
                calls = 0
                # Wait for further calls, answered by the new owner.
                await wait_until(lambda: calls >= 6, 100)
                for caller in callers:
                    caller.cancel()
                await asyncio.wait(callers)
