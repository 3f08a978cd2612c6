"""Events about changed project files during a turn, with the authors of the changes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.agent import Agent
from agent.providers.scripted import Step
from agent.settings import AgentSettings
from agent.tools.base import CallContext
from agent.tools.file_views import stamp
from agent.types import ToolResult
from tests.agent.props import FREE, Handmade, call, calls, scripted

ChangeEvent = tuple[str, str, int]


class Watched:
    """An agent with a watched folder, and its turns."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.news = asyncio.Event()
        self.events: list[ChangeEvent] = []
        self.agent: Agent

    def tool(self, effect: str, *names: str) -> Handmade:
        """Return a tool that changes the files and returns once the changes are reported."""

        async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
            for name in names:
                (self.root / name).write_text("changed")
            await self.until_told(names[-1])
            return ToolResult("fine")

        return Handmade("wait", body, effect)

    async def until_told(self, name: str) -> None:
        while not any(
            name == result or (result in name and files > 1) for result, _, files in self.events
        ):
            self.news.clear()
            await self.news.wait()

    async def turn(self, replies: Sequence[Step], *tools: Handmade) -> list[ChangeEvent]:
        settings = AgentSettings(watch=True)
        self.agent, _ = scripted(replies, self.root, *tools, permissions=FREE, settings=settings)
        try:
            with self.agent.watches.follow(self.root) as subscription:
                await subscription.wait_begun()
                async with aclosing(self.agent.stream("go", session="s")) as stream:
                    await self._read(stream)
        finally:
            await self.agent.aclose()
        return self.events

    async def _read(self, stream: AsyncIterator[events.Event]) -> None:
        async for event in stream:
            if isinstance(event, events.FileChanged):
                name = str(Path(event.path).relative_to(self.root))
                self.events.append((name, event.by, event.files))
                self.news.set()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path.resolve())


async def test_external_change_is_reported_immediately(watched: Watched) -> None:
    results = await watched.turn([calls(call("wait")), "done"], watched.tool("read", "a.txt"))
    assert results == [("a.txt", "user", 1)]


async def test_change_during_a_command_is_attributed_to_the_tool(watched: Watched) -> None:
    results = await watched.turn([calls(call("wait")), "done"], watched.tool("unsafe", "a.txt"))
    assert results == [("a.txt", "tool", 1)]


async def test_many_changes_are_one_event(watched: Watched) -> None:
    (watched.root / "src/deep").mkdir(parents=True)
    names = [f"src/deep/{number}.txt" for number in range(500)]
    results = await watched.turn([calls(call("wait")), "done"], watched.tool("read", *names))
    assert sum(count for _, _, count in results) >= 500
    assert {name for name, _, _ in results if name not in names} == {"src/deep"}
    assert len(results) <= 20


async def test_change_by_a_tool_is_reported_once(watched: Watched) -> None:
    write = call("write_file", "c1", path="a.txt", content="new")
    results = await watched.turn(
        [calls(write, call("wait", "c2")), "done"], watched.tool("read", "b")
    )
    assert sorted(results) == [("a.txt", "tool", 1), ("b", "user", 1)]


async def test_change_by_another_session_is_attributed_to_the_agent(watched: Watched) -> None:
    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        (path := watched.root / "a.txt").write_text("changed")
        watched.agent.views.record_write("another", path)
        await watched.until_told("a.txt")
        return ToolResult("fine")

    results = await watched.turn([calls(call("wait")), "done"], Handmade("wait", body, "read"))
    assert results == [("a.txt", "agent", 1)]


async def test_nothing_is_watched_without_the_setting(tmp_path: Path) -> None:
    agent, _ = scripted(["done"], tmp_path)
    async with agent:
        await agent.run("go")
        assert agent.watches.watched() == {}


def test_turn_without_a_watch_does_not_import_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from agent.agent import Agent\n"
        "from agent.providers.scripted import ScriptedProvider\n"
        f"agent = Agent(ScriptedProvider(['fine']), workspace={str(tmp_path)!r})\n"
        "asyncio.run(agent.run('hi'))\n"
        "print([name for name in sys.modules if 'watch' in name and name.startswith('agent')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "code.watch" not in shown.stdout


def test_writer_of_a_file_is_known_until_it_changes(watched: Watched) -> None:
    agent, _ = scripted([], watched.root)
    (path := watched.root / "a").write_text("one")
    agent.views.record_write("s", path)
    assert agent.views.writer(path, stamp(path)) == "s"
    path.write_text("longer")
    assert agent.views.writer(path, stamp(path)) is None
