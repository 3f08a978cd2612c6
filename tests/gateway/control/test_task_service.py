"""Background work of a session, for clients that watch it from another process."""

import asyncio
import json
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.providers.scripted import EchoProvider
from agent.types import assistant
from gateway.core.records import TaskInfo
from tests.gateway.parts import Parts, running, tool_call, wait_until
from tests.processes import has_ended

TICKS = "printf 'one\\ntwo\\n'; exec sleep 4711.5"


async def begin(parts: Parts, text: str = "go") -> str:
    session = await parts.service.send_message(None, text, mode="auto")
    async with parts.service.follow_session(session) as events:
        async for event in events:
            if event.type in ("turn_end", "idle"):
                return session
    raise AssertionError("the session was not followed to its end")


async def tasks(parts: Parts, session: str) -> list[TaskInfo]:
    return list(await parts.service.list_tasks(session))


async def test_command_is_listed_read_and_stopped(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command=TICKS, background=True)
    async with running(tmp_path, [assistant("", (call,)), "it runs"]) as parts:
        session = await begin(parts)
        (task,) = await tasks(parts, session)
        assert (task.id, task.kind, task.is_running) == ("1", "command", True)
        assert task.last_line == "two"
        output = await parts.service.read_task(session, "1")
        assert output == {"text": "one\ntwo\n", "begin": 0, "end": 8}
        assert (await parts.service.read_task(session, "1", 4))["text"] == "two\n"
        # Output that a person reads is still reported to the model.
        (process,) = parts.agent.toolbox.tasks(session)
        assert process.is_running
        other = await parts.service.create_session()
        with pytest.raises(KoreError, match="no background task"):
            await parts.service.stop_task(other, "1")
        assert "Stopping 1" in await parts.service.stop_task(session, "1")
        assert await has_ended("sleep 4711.5")
        await wait_until(lambda: not parts.agent.toolbox.tasks(session)[0].is_running)
        assert (await tasks(parts, session))[0].state == "killed"


async def test_subagent_is_listed_followed_and_stopped(tmp_path: Path) -> None:
    working = f"!tool exec {json.dumps({'command': 'exec sleep 4712.5'})}"
    sending = {
        "description": "look around",
        "prompt": working,
        "subagent_type": "general",
        "background": True,
    }
    async with running(tmp_path, EchoProvider()) as parts:
        session = await begin(parts, f"!tool task {json.dumps(sending)}")
        async with asyncio.timeout(30):
            while (task := (await tasks(parts, session))[0]).last_line == "":
                await parts.database.transact(lambda _: None)
        assert (task.id, task.kind, task.state) == ("agent-1", "agent", "running")
        assert (task.agent, task.title) == ("general", "look around")
        assert task.last_line == "Running exec sleep 4712.5"
        assert task.session is not None
        assert (await parts.service.load_messages(task.session))[-1].tool_calls
        assert "stopped" in await parts.service.stop_task(session, task.id)
        assert await has_ended("sleep 4712.5")
        async with asyncio.timeout(30):
            while (task := (await tasks(parts, session))[0]).is_running:
                await parts.database.transact(lambda _: None)
        assert task.state == "stopped"
        assert task.ended_at is not None
