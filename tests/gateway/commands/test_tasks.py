"""Background tasks of a session, listed and stopped from its chat."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.events import Notice
from agent.providers.scripted import ScriptedProvider
from agent.types import Message, ToolCall, assistant
from gateway.core.messages import Sender
from gateway.core.records import Delivered, WatchEvent
from tests.gateway.parts import Parts, console_message, running
from tests.processes import has_ended, lasting_command, runs

LANE = "cli:local:main"


def start(command: str) -> Message:
    args = {"command": command, "background": True}
    return assistant("", (ToolCall("c1", "exec", args, json.dumps(args)),))


class Console:
    """Console client that sends a message and waits for the answer."""

    def __init__(self, parts: Parts, watched: AsyncIterator[WatchEvent]) -> None:
        self._parts = parts
        self._watched = watched

    async def __call__(self, text: str, sender: str = "7", chat: str = "main") -> str:
        message = console_message(text, chat, sender=Sender(sender), options={"auto": True})
        await self._parts.bus.submit(message)
        async with asyncio.timeout(30):
            async for event in self._watched:
                if isinstance(event, Delivered) and event.event_id == message.event_id:
                    return event.text
        raise AssertionError("the watch has ended")


@asynccontextmanager
async def console(folder: Path, model: ScriptedProvider) -> AsyncIterator[Console]:
    async with running(folder, model) as parts, parts.service.watch(LANE) as watched:
        yield Console(parts, watched)


async def expect_killed(say: Console, command: str) -> None:
    """Wait until Kore notices the end: a killed process disappears slightly earlier."""
    async with asyncio.timeout(30):
        while f"{command}: killed" not in await say("/tasks"):
            pass


async def test_tasks_are_listed_and_killed(tmp_path: Path) -> None:
    command = lasting_command()
    model = ScriptedProvider([start(command), "it runs", "still there", "gone"])
    async with console(tmp_path, model) as say:
        assert "No background tasks in this conversation" in await say("/tasks")
        assert await say("start it") == "it runs"
        assert await say("and now?") == "still there"
        text = f"background process 1 ({command}): running for"
        assert text in str(model.requests[-1].messages[-1].content)
        assert f"- `1` {command}: running for" in await say("/tasks")
        assert "is called `2`" in await say("/tasks kill 2")
        assert "Stopping `1` and everything" in await say("/tasks kill 1")
        await expect_killed(say, command)
        assert await has_ended(command)
        assert await say("and now?") == "gone"
        # Earlier messages are unchanged, byte for byte.
        *before, last = model.requests[-1].messages
        assert [m for m in before if m.role == "user"][-1] == model.requests[-2].messages[-1]
        assert f"background process 1 ({command}): killed" in str(last.content)


async def test_new_conversation_ends_the_tasks_of_the_old_one(tmp_path: Path) -> None:
    command = lasting_command()
    model = ScriptedProvider([start(command), "it runs", "fresh"])
    async with console(tmp_path, model) as say:
        await say("start it")
        assert await runs(command)
        assert f"tasks stopped: `{command}`." in await say("/new")
        assert await has_ended(command)
        await say("hello")
        assert "background" not in str(model.requests[-1].messages[-1].content)


async def test_closed_conversation_ends_its_tasks(tmp_path: Path) -> None:
    command = lasting_command()
    model = ScriptedProvider([start(command), "it runs"])
    async with running(tmp_path, model) as parts, parts.service.watch(LANE) as watched:
        await Console(parts, watched)("start it")
        (session,) = await parts.service.list_sessions()
        assert await parts.service.background_tasks(session.id) == [command]
        text = await parts.service.set_session_status(session.id, "closed")
        assert text.endswith(f"Background tasks stopped: {command}.")
        assert await has_ended(command)
        assert await parts.service.background_tasks(session.id) == []


async def test_one_shot_run_ends_and_reports_its_tasks(tmp_path: Path) -> None:
    command = lasting_command()
    model = ScriptedProvider([start(command), "it runs"])
    message = console_message("go", "once-1", options={"auto": True})
    async with (
        running(tmp_path, model) as parts,
        parts.service.watch(message.session_key) as watched,
    ):
        await parts.bus.submit(message)
        events = []
        async with asyncio.timeout(30):
            async for event in watched:
                events.append(event)
                if isinstance(event, Delivered):
                    break
        assert Notice("info", f"Background tasks stopped: {command}.") in events
        assert await has_ended(command)


async def test_background_command_of_a_failed_subagent_ends(tmp_path: Path) -> None:
    command = lasting_command()
    args = {"description": "start it", "prompt": "start it", "subagent_type": "general"}
    send = assistant("", (ToolCall("c0", "task", args, json.dumps(args)),))
    model = ScriptedProvider([send, start(command), RuntimeError("a bug"), "it broke"])
    async with console(tmp_path, model) as say:
        assert await say("have it started") == "it broke"
        assert model.requests[2].messages[-1].text.endswith(" s]")
        assert await has_ended(command)
