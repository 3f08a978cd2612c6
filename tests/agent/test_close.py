"""Closing of an agent: everything that it opened, whatever fails meanwhile."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

import kore
from agent.errors import ConfigError
from agent.mcp.settings import McpServerSettings
from agent.providers.scripted import ScriptedProvider
from agent.settings import AgentSettings
from agent.tools.base import CallContext
from agent.types import Effect, JsonSchema, ToolResult
from tests import fakes
from tests.agent.props import call, calls
from tests.processes import processes


class FailingTool:
    """Tool of a plugin that cannot be closed."""

    name: ClassVar[str] = "broken"
    description: ClassVar[str] = "A tool."
    parameters: ClassVar[JsonSchema] = {"type": "object"}
    effect: ClassVar[Effect] = "read"

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return ToolResult("done")

    async def aclose(self) -> None:
        raise OSError("the plugin is broken")


class FailingProvider(ScriptedProvider):
    async def aclose(self) -> None:
        raise OSError("the connection is broken")


def target(tmp_path: Path, **options: Any) -> tuple[kore.Agent, ScriptedProvider]:
    model = ScriptedProvider(["done"])
    agent = kore.Agent(model, name="target", handoff_description="x", workspace=tmp_path, **options)
    return agent, model


async def test_broken_plugin_leaves_no_mcp_server_running(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    mark = str(tmp_path / "mark")
    args = ("-B", str(Path(fakes.__file__).with_name("mcp_server.py")), mark)
    model = ScriptedProvider(["hi"])
    agent = kore.Agent(
        model,
        workspace=tmp_path,
        tools=[FailingTool()],
        mcp_servers=[McpServerSettings("s", sys.executable, args)],
    )
    await agent.run("hi")
    assert processes(mark)
    with pytest.raises(OSError, match="the plugin is broken"):
        await agent.aclose()
    assert not processes(mark)
    assert model.closed


async def test_failing_provider_keeps_no_other_agent_open(tmp_path: Path) -> None:
    other = kore.Agent(FailingProvider(["done"]), name="target", workspace=tmp_path)
    model = ScriptedProvider([calls(call("transfer_to_target"))])
    agent = kore.Agent(model, workspace=tmp_path, handoffs=[other])
    await agent.run("hi")
    with pytest.raises(OSError, match="the connection is broken"):
        await agent.aclose()
    assert model.closed


async def test_watches_of_a_handoff_target_end(tmp_path: Path) -> None:
    settings = AgentSettings(watch=True)
    other, _ = target(tmp_path, settings=settings)
    agent = kore.Agent(
        ScriptedProvider([calls(call("transfer_to_target"))]),
        workspace=tmp_path,
        settings=settings,
        handoffs=[other],
    )
    root = tmp_path.resolve()
    with other.watches.follow(root):
        watch = other.watches.watch(root)
        assert watch is not None
        await agent.aclose()
        assert not watch.is_open


async def test_agents_of_the_same_name_are_closed(tmp_path: Path) -> None:
    first, first_model = target(tmp_path)
    second, second_model = target(tmp_path)
    await first.run("hi")
    await second.run("hi")
    agent = kore.Agent(ScriptedProvider(["hi"]), workspace=tmp_path, handoffs=[first, second])
    with pytest.raises(ConfigError):
        await agent.run("hi")
    await agent.aclose()
    assert (first_model.closed, second_model.closed) == (True, True)
