"""Refusal of calls with a secret in their arguments, for every kind of tool and caller."""

import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.mcp.settings import McpServerSettings
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import FullAccessPolicy
from agent.settings import AgentSettings
from agent.subagents.definition import SubagentDefinition
from agent.tools.function_tool import tool
from agent.tools.runner import Permissions
from agent.types import ToolCall, assistant
from tests import fakes
from tests.agent.props import call

KEY = "sk-4f9Qx2z7Lm8Wv1Rt"
REFUSED = "no tool may receive it"
WRITER = SubagentDefinition("writer", "Writes files.", "You write.", tools=("write_file",))


async def _results(folder: Path, *steps: ToolCall | str, **more: Any) -> list[str]:
    """Run a turn with sub-agents and return the call results that the model read."""
    replies = [assistant("", (step,)) if isinstance(step, ToolCall) else step for step in steps]
    model = ScriptedProvider(replies)
    agent = Agent(
        model,
        workspace=folder,
        settings=AgentSettings(secrets=frozenset({KEY})),
        approve=Permissions(FullAccessPolicy()),
        **more,
    )
    async with agent, aclosing(agent.stream("go on")) as stream:
        async for _ in stream:
            pass
    last = [request.messages[-1] for request in model.requests]
    return [message.text for message in last if message.role == "tool"]


def _sent_out(prompt: str) -> ToolCall:
    return call("task", description="work", prompt=prompt, subagent_type="writer")


async def test_function_is_not_called(tmp_path: Path) -> None:
    texts: list[str] = []

    @tool
    def send(text: str) -> str:
        """Send a text."""
        texts.append(text)
        return "sent"

    (result,) = await _results(tmp_path, call("send", text=f"key {KEY}"), "done", tools=[send])
    assert REFUSED in result
    assert texts == []


async def test_mcp_server_is_not_called(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    server = Path(fakes.__file__).with_name("mcp_server.py")
    settings = McpServerSettings("s", sys.executable, ("-B", str(server)))
    wanted = call("mcp__s__echo", text=KEY)
    (result,) = await _results(tmp_path, wanted, "done", mcp_servers=[settings])
    assert REFUSED in result


async def test_subagent_is_not_started_with_a_secret(tmp_path: Path) -> None:
    wanted = _sent_out(f"Write {KEY}.")
    (result,) = await _results(tmp_path, wanted, "done", subagents=[WRITER])
    assert REFUSED in result


async def test_call_of_a_subagent_is_rejected(tmp_path: Path) -> None:
    sent = _sent_out("Write a file.")
    own = call("write_file", path="a.txt", content=KEY)
    refused, report = await _results(tmp_path, sent, own, "written", "done", subagents=[WRITER])
    assert REFUSED in refused
    assert "written" in report
    assert not (tmp_path / "a.txt").exists()
