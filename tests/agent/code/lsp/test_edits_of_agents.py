"""Restriction of `lsp` to the tools of an agent."""

from pathlib import Path

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import DefaultPolicy
from agent.subagents.definition import SubagentDefinition
from agent.tools.runner import Permissions
from tests.agent.props import call, calls, results


async def test_edit_without_lsp_edit_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("word = 1\n")
    looker = SubagentDefinition("looker", "Looks.", "You look.", tools=("read_file", "lsp"))
    rename_call = call(
        "lsp", "c2", operation="rename", path="a.py", line=1, symbol="word", new_name="w"
    )
    model = ScriptedProvider(
        [
            calls(call("task", "c1", description="r", prompt="go", subagent_type="looker")),
            calls(rename_call),
            "looked",
            "done",
        ]
    )
    free = Permissions(DefaultPolicy("auto"))
    agent = Agent(model, workspace=tmp_path, subagents=[looker], approve=free)
    await agent.run("go")
    (text,) = results(model.requests[2].messages)
    assert "rename changes files, and this agent has no tool lsp_edit." in text
    assert (tmp_path / "a.py").read_text() == "word = 1\n"
