"""Hooks of the type `prompt`: a model judges a step."""

import json
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.errors import RateLimited
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.turn.command_hooks import CommandHooks, PromptHook
from tests.agent.props import call, calls

NO = '{"ok": false, "reason": "the tests were not run"}'
YES = '```json\n{"ok": true}\n```'


async def run(
    folder: Path, hook: PromptHook, *replies: Any
) -> tuple[ScriptedProvider, kore.Result, list[str]]:
    """Return the model of a turn with this hook, its result and its notices."""
    (folder / "a.txt").write_text("the file\n")
    model = ScriptedProvider(list(replies))
    agent = kore.Agent(model, workspace=folder, hooks=[CommandHooks([hook], ToolSettings())])
    notices: list[str] = []
    result = None
    async for event in agent.stream("fix it"):
        if isinstance(event, kore.events.Notice):
            notices.append(event.text)
        if isinstance(event, kore.events.Done):
            result = event.result
    assert result is not None
    return model, result, notices


READ = calls(call("read_file", path="a.txt"))


async def test_input_replaces_the_placeholder(tmp_path: Path) -> None:
    hook = PromptHook("UserPromptSubmit", "Is $ARGUMENTS about code?")
    model, result, _ = await run(tmp_path, hook, YES, "done")
    judged = model.requests[0].messages[-1].text
    assert judged.startswith("Is {")
    assert json.loads(judged.removeprefix("Is ").removesuffix(" about code?"))["prompt"] == "fix it"
    assert not model.requests[0].tools
    assert result.text == "done"


async def test_input_is_appended_without_a_placeholder(tmp_path: Path) -> None:
    model, _, _ = await run(tmp_path, PromptHook("UserPromptSubmit", "Code?"), YES, "done")
    assert model.requests[0].messages[-1].text.startswith("Code?\n\n{")


async def test_stop_continues_with_the_reason(tmp_path: Path) -> None:
    hook = PromptHook("Stop", "Are the tests green?")
    model, result, _ = await run(tmp_path, hook, "done", NO, "now they are", YES)
    assert "the tests were not run" in str(model.requests[2].messages[-1])
    assert result.text.endswith("now they are")


async def test_message_is_not_answered(tmp_path: Path) -> None:
    model, result, _ = await run(tmp_path, PromptHook("UserPromptSubmit", "Polite?"), NO)
    assert result.stopped == "hook"
    assert "the tests were not run" in result.text
    assert len(model.requests) == 1


async def test_call_is_denied(tmp_path: Path) -> None:
    model, result, _ = await run(tmp_path, PromptHook("PreToolUse", "Safe?"), READ, NO, "done")
    [tool] = [message for message in model.requests[-1].messages if message.role == "tool"]
    assert "A hook blocked this call: the tests were not run" in tool.text
    assert result.text == "done"


@pytest.mark.parametrize("continues", [True, False])
async def test_rejection_after_a_call(tmp_path: Path, continues: bool) -> None:
    hook = PromptHook("PostToolUse", "Well?", continues_on_block=continues)
    model, result, _ = await run(tmp_path, hook, READ, NO, "done")
    assert (result.stopped, len(model.requests)) == ((None, 3) if continues else ("hook", 2))
    tool = next(item for item in reversed(result.messages) if item.role == "tool")
    assert "the tests were not run" in tool.text


@pytest.mark.parametrize("reply", ["I think so.", '{"ok": "maybe"}', RateLimited("slow down")])
async def test_hook_without_a_verdict_blocks_nothing(tmp_path: Path, reply: Any) -> None:
    hook = PromptHook("PreToolUse", "Safe?")
    model, result, notices = await run(tmp_path, hook, READ, reply, "done")
    assert result.text == "done"
    assert any("Safe?" in notice for notice in notices)
    assert "the file" in str(model.requests[-1].messages)
