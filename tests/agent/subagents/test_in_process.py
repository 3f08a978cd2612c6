"""Sub-agents of the library, without gateway and database."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import ConfigError
from agent.events import Done, FromAgent, ModelEvent, Reply
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.security.policy.base import PermissionMode
from agent.security.policy.engine import DefaultPolicy
from agent.settings import AgentSettings, SubagentLimits
from agent.subagents.definition import SubagentDefinition
from agent.tools.runner import Permissions
from agent.types import ToolCall, Usage, assistant

POET = SubagentDefinition("poet", "Writes a line.", "You are a poet.", tools=("list_dir",))


def task(prompt: str, agent: str = "poet", **more: Any) -> str:
    args = {"description": "work", "prompt": prompt, "subagent_type": agent, **more}
    return f"!tool task {json.dumps(args)}"


def permissions_in(mode: PermissionMode = "auto") -> Permissions:
    return Permissions(DefaultPolicy(mode))


async def test_given_agent_uses_its_own_text_and_tools(tmp_path: Path) -> None:
    args = {"description": "a line", "prompt": "about rain", "subagent_type": "poet"}
    call = ToolCall("1", "task", args, json.dumps(args))
    model = ScriptedProvider([assistant("", (call,)), "It rains.", "The poet says: it rains."])
    async with asyncio.timeout(30):
        result = await Agent(model, workspace=tmp_path, subagents=[POET]).run("a line")
    assert result.text == "The poet says: it rains."
    request = model.requests[1]
    assert request.system.startswith("You are a poet.")
    assert [tool.name for tool in request.tools] == ["list_dir"]
    assert [message.text for message in request.messages] == ["about rain"]
    assert "It rains." in model.requests[2].messages[-1].text
    # The usage of the sub-agent is included.
    assert result.usage.output > sum(len(text) for text in ("It rains.",)) // 4


async def test_subagent_events_are_reported(tmp_path: Path) -> None:
    agent = Agent(EchoProvider(), workspace=tmp_path, subagents=[POET])
    agents = [e async for e in agent.stream(task("!tool list_dir {}")) if isinstance(e, FromAgent)]
    assert [event.event["type"] for event in agents] == [
        "session_start",
        "tool_start",
        "tool_result",
        "done",
    ]


async def test_subagent_is_resumed_by_number_in_its_session(tmp_path: Path) -> None:
    agent = Agent(EchoProvider(), workspace=tmp_path, subagents=[POET])
    await agent.run(task("one"), session="s")
    again = await agent.run(task("two", resume="1"), session="s")
    assert "number 2" in again.text
    other = await agent.run(task("three", resume="1"), session="other")
    assert "no sub-agent with the number" in other.text
    none = await agent.run(task("four", resume="9" * 5_000), session="s")
    assert "no sub-agent with the number" in none.text


@pytest.mark.parametrize(("mode", "made"), [("plan", False), ("auto", True)])
async def test_subagent_is_limited_to_its_caller(
    tmp_path: Path, mode: PermissionMode, made: bool
) -> None:
    write = '!tool write_file {"path": "a.txt", "content": "x"}'
    agent = Agent(EchoProvider(), workspace=tmp_path, approve=permissions_in(mode))
    await agent.run(task(write, "general"))
    assert (tmp_path / "a.txt").exists() == made


async def test_subagent_is_limited_to_its_definition(tmp_path: Path) -> None:
    write = '!tool write_file {"path": "a.txt", "content": "x"}'
    tight = SubagentDefinition("tight", "", "You look.", mode="plan")
    agent = Agent(EchoProvider(), workspace=tmp_path, approve=permissions_in(), subagents=[tight])
    assert "Not allowed" in (await agent.run(task(write, "tight"))).text
    assert not (tmp_path / "a.txt").exists()


async def test_depth_is_limited(tmp_path: Path) -> None:
    nested = task(task("deepest", "general"), "general")
    flat = await Agent(EchoProvider(), workspace=tmp_path).run(nested)
    assert "There is no tool 'task'" in flat.text
    deep = AgentSettings(subagents=SubagentLimits(max_depth=2))
    result = await Agent(EchoProvider(), workspace=tmp_path, settings=deep).run(nested)
    assert "deepest" in result.text
    none = AgentSettings(subagents=SubagentLimits(max_depth=0))
    assert (
        "are not available here"
        in (
            await Agent(EchoProvider(), workspace=tmp_path, settings=none).run(task("x", "general"))
        ).text
    )


class Slow:
    """A model whose sub-agents never answer."""

    name = "slow"

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = False
        self._echo = EchoProvider()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.messages[-1].text == "wait":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left = True
            yield Reply(assistant(""), Usage(), "stop")
        async for event in self._echo.stream(request):
            yield event

    async def aclose(self) -> None: ...


async def test_subagent_ends_with_its_caller(tmp_path: Path) -> None:
    model = Slow()
    running = asyncio.create_task(Agent(model, workspace=tmp_path).run(task("wait", "general")))
    async with asyncio.timeout(30):
        await model.begun.wait()
        running.cancel()
        await asyncio.wait({running})
    assert model.left


async def test_run_ends_with_one_result(tmp_path: Path) -> None:
    agent = Agent(EchoProvider(), workspace=tmp_path, subagents=[POET])
    done = [e async for e in agent.stream(task("x", background=True)) if isinstance(e, Done)]
    assert len(done) == 1
    assert "number 1" in done[0].result.text


async def test_definition_may_have_its_own_run(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Of the workspace.")
    model = ScriptedProvider(["A line."])
    agent = Agent(model, workspace=tmp_path, subagents=[POET], agent="poet")
    assert (await agent.run("about rain")).text == "A line."
    (result,) = model.requests
    assert result.system.index("Of the workspace.") < result.system.index("You are a poet.")
    assert [tool.name for tool in result.tools] == ["list_dir"]


async def test_agent_and_its_subagents_are_limited_to_its_mode(
    tmp_path: Path,
) -> None:
    write = '!tool write_file {"path": "a.txt", "content": "x"}'
    careful = SubagentDefinition("careful", "", "You look.", mode="plan")
    agent = Agent(EchoProvider(), workspace=tmp_path, approve=permissions_in(), agent=careful)
    refused = (await agent.run(write)).text
    assert "Not allowed: this agent is read-only" in refused
    # Hints about a person's commands would not help here.
    assert "/mode" not in refused
    assert "Not allowed" in (await agent.run(task(write, "general"))).text
    assert not (tmp_path / "a.txt").exists()


def test_unknown_agent_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="no agent 'nobody'; available: build, explore, general, plan, review"
    ):
        Agent(EchoProvider(), workspace=tmp_path, agent="nobody")


class Late(EchoProvider):
    """An echo provider that delays the answers of sub-agents."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.messages[-1].text == "take your time":
            await asyncio.sleep(0.2)
        async for event in super().stream(request):
            yield event


async def test_subagent_may_outlast_the_call_timeout(tmp_path: Path) -> None:
    settings = AgentSettings(call_timeout_s=0.05)
    result = await Agent(Late(), workspace=tmp_path, settings=settings).run(
        task("take your time", "general")
    )
    assert "> take your time" in result.text


async def test_resumed_subagent_keeps_its_model(tmp_path: Path) -> None:
    paid = ModelConfig("second", "offline/echo", price_input_usd=1.0, price_output_usd=1.0)
    models = ModelPool("first", [ModelConfig("first", "offline/echo"), paid])
    agent = Agent(models, workspace=tmp_path, subagents=[POET])
    for prompt in (task("one", model="second"), task("two", resume="1")):
        result = await agent.run(prompt, session="s")
        assert result.cost_usd


async def test_replaced_model_is_noted_for_new_subagents_only(tmp_path: Path) -> None:
    expert = SubagentDefinition("expert", "", "You know.", model="elsewhere/large")
    agent = Agent(EchoProvider(), workspace=tmp_path, subagents=[expert])
    new = await agent.run(task("one", "expert"), session="s")
    resumed = await agent.run(task("two", "expert", resume="1"), session="s")
    assert "(the model elsewhere/large cannot be used" in new.text
    assert "cannot be used" not in resumed.text


async def test_parallel_limit_counts_each_session(tmp_path: Path) -> None:
    model = Slow()
    limits = AgentSettings(subagents=SubagentLimits(max_parallel=1))
    agent = Agent(model, workspace=tmp_path, settings=limits)
    waiting = asyncio.create_task(agent.run(task("wait", "general"), session="first"))
    async with asyncio.timeout(30):
        await model.begun.wait()
        result = await agent.run(task("hello", "general"), session="second")
        waiting.cancel()
        await asyncio.wait({waiting})
    assert "> hello" in result.text


@pytest.mark.programs("git")
async def test_explore_reads_git_history_and_changes_nothing(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *args], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (tmp_path / "a.txt").write_text("sheep\n")
    git("add", "-A")
    git("commit", "-q", "-m", "Count the sheep")
    # Without a sandbox a person would have to approve each command.
    agent = Agent(EchoProvider(), workspace=tmp_path, full_access=True)

    async def run(command: str) -> str:
        tool = f"!tool exec {json.dumps({'command': command})}"
        return (await agent.run(task(tool, "explore"))).text

    async with agent, asyncio.timeout(60):
        for looking in ("git log -S sheep --oneline", "git blame -s a.txt", "git show HEAD"):
            assert "sheep" in await run(looking), looking
            assert "Not allowed" not in await run(looking), looking
        for changing in ("git branch other", "git commit --allow-empty -m x", "touch b.txt"):
            assert "Not allowed" in await run(changing), changing
    assert not (tmp_path / "b.txt").exists()
