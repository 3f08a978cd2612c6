"""Hooks that run in the background, as real processes beside whole turns."""

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from agent.tools.base import ToolEnvironment
from agent.turn.background_hooks import MAX_RUNNING
from agent.turn.command_hooks import CommandHook, CommandHooks
from agent.turn.hook_chain import report_outside_turn
from tests.agent.props import call, calls
from tests.processes import has_ended, runs

ASYNC = '{"async": true}'


def talker(folder: Path, *hooks: CommandHook, replies: int = 3) -> tuple[Any, ScriptedProvider]:
    """Return an agent with these hooks, and its model."""
    model = ScriptedProvider(["fine"] * replies)
    agent = kore.Agent(model, workspace=folder, hooks=[CommandHooks(hooks, ToolSettings())])
    return agent, model


def texts(model: ScriptedProvider) -> str:
    """Return the conversation in the last request."""
    parts = [part for message in model.requests[-1].messages for part in message.content]
    return "\n".join(getattr(part, "text", "") for part in parts)


async def until_released(agent: Any) -> None:
    """Wait until no hook runs in the background."""
    async with asyncio.timeout(20):
        while agent.background_hooks.running:
            await asyncio.sleep(0.02)


def waits_for(gate: Path, then: str = "") -> str:
    return f"while [ ! -e {gate} ]; do sleep 0.02; done\n{then}"


@pytest.mark.parametrize("is_configured", [True, False])
async def test_answer_does_not_wait(tmp_path: Path, is_configured: bool) -> None:
    gate = tmp_path / "gate"
    first = "" if is_configured else f"echo '{ASYNC}'\n"
    hook = CommandHook("UserPromptSubmit", first + waits_for(gate), is_async=is_configured)
    agent, model = talker(tmp_path, hook)
    async with agent:
        result = await agent.run("hello", session="s")
        assert result.text == "fine"
        assert agent.background_hooks.running == 1
        assert "async" not in texts(model)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
async def test_json_lines_never_reach_the_model_as_text(tmp_path: Path, event: Any) -> None:
    lines = [ASYNC, '{"progress": 1}', "installing", '{"systemMessage": "installed"}']
    command = "".join(f"echo '{line}'\n" for line in lines)
    agent, model = talker(tmp_path, CommandHook(event, command))
    async with agent:
        await agent.run("hello", session="s")
        await until_released(agent)
        await agent.run("again", session="s")
    for word in ("async", "progress", "installing", "installed"):
        assert word not in texts(model)


async def test_context_reaches_the_model_in_the_next_turn(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    answer = {"hookSpecificOutput": {"additionalContext": "two tests fail"}}
    command = waits_for(gate, f"echo '{json.dumps(answer)}'")
    agent, model = talker(tmp_path, CommandHook("SessionStart", command, is_async=True))
    async with agent:
        await agent.run("hello", session="s")
        gate.touch()
        await until_released(agent)
        await agent.run("other conversation", session="t")
        assert "two tests fail" not in texts(model)
        await agent.run("again", session="s")
        assert texts(model).count("two tests fail") == 1


async def test_message_to_the_person_is_shown_in_the_next_turn(tmp_path: Path) -> None:
    hook = CommandHook("SessionStart", """echo '{"systemMessage": "built"}'""", is_async=True)
    agent, model = talker(tmp_path, hook)
    async with agent:
        await agent.run("hello", session="s")
        await until_released(agent)
        notices = [
            event.text
            async for event in agent.stream("again", session="s")
            if isinstance(event, kore.events.Notice)
        ]
    assert notices == ["built"]
    assert "built" not in texts(model)


async def test_decision_in_the_background_blocks_nothing(tmp_path: Path) -> None:
    decision = '{"decision": "block", "reason": "no", "continue": false}'
    hooks = [
        CommandHook("UserPromptSubmit", f"echo '{ASYNC}'; echo '{decision}'"),
        CommandHook("UserPromptSubmit", "echo no >&2; exit 2", is_async=True),
    ]
    agent, _ = talker(tmp_path, *hooks)
    async with agent:
        result = await agent.run("hello", session="s")
        await until_released(agent)
        assert (result.text, result.stopped) == ("fine", None)
        assert (await agent.run("again", session="s")).text == "fine"


async def test_output_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent, _ = talker(tmp_path, CommandHook("SessionStart", "echo built in 3 s", is_async=True))
    with caplog.at_level(logging.INFO):
        async with agent:
            await agent.run("hello", session="s")
            await until_released(agent)
    assert "built in 3 s" in caplog.text


@pytest.mark.parametrize("is_configured", [True, False])
async def test_hook_is_killed_at_its_timeout(
    tmp_path: Path, is_configured: bool, caplog: pytest.LogCaptureFixture
) -> None:
    mark = f"hook-past-its-time-{os.getpid()}-{is_configured}"
    if is_configured:
        hook = CommandHook("SessionStart", f": {mark}; sleep 600", timeout_s=0.4, is_async=True)
    else:
        first = '{"async": true, "asyncTimeout": 400}'
        hook = CommandHook("SessionStart", f": {mark}; echo '{first}'; sleep 600 & sleep 600")
    agent, _ = talker(tmp_path, hook)
    async with agent:
        await agent.run("hello", session="s")
        await until_released(agent)
        assert await has_ended(mark)
    assert "took longer than 0.4 s" in caplog.text


async def test_closed_agent_leaves_no_process(tmp_path: Path) -> None:
    mark = f"hook-of-a-closed-agent-{os.getpid()}"
    hook = CommandHook("SessionStart", f": {mark}; sleep 600 & sleep 600", is_async=True)
    agent, _ = talker(tmp_path, hook)
    async with agent:
        await agent.run("hello", session="s")
        assert await runs(mark)
    assert await has_ended(mark)


@pytest.mark.parametrize("is_configured", [True, False])
async def test_agent_closed_at_once_leaves_no_process(tmp_path: Path, is_configured: bool) -> None:
    mark = f"hook-of-an-agent-closed-at-once-{os.getpid()}-{is_configured}"
    first = "" if is_configured else f"echo '{ASYNC}'; "
    command = f": {mark}; {first}sleep 600"
    agent, _ = talker(tmp_path, CommandHook("SessionStart", command, is_async=is_configured))
    environment = ToolEnvironment("s", tmp_path, tmp_path / "MEMORY.md")
    async with agent:
        await report_outside_turn(agent, "SessionStart", environment, {"source": "startup"})
        assert agent.background_hooks.running == 1
    assert [task for task in asyncio.all_tasks() if task.get_name() == "hook"] == []
    assert await has_ended(mark)


async def test_hooks_in_the_background_are_limited(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    hooks = [CommandHook("SessionStart", waits_for(gate), is_async=True)] * (MAX_RUNNING + 1)
    agent, _ = talker(tmp_path, *hooks)
    async with agent:
        notices = [
            event.text
            async for event in agent.stream("hello", session="s")
            if isinstance(event, kore.events.Notice)
        ]
        assert len(notices) == 1
        assert f"the limit is {MAX_RUNNING}" in notices[0]


async def test_call_is_not_delayed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the file\n")
    gate = tmp_path / "gate"
    answer = '{"hookSpecificOutput": {"additionalContext": "tests pass"}}'
    hook = CommandHook("PostToolUse", waits_for(gate, f"echo '{answer}'"), is_async=True)
    model = ScriptedProvider([calls(call("read_file", path="a.txt")), "done", "fine"])
    agent = kore.Agent(model, workspace=tmp_path, hooks=[CommandHooks([hook], ToolSettings())])
    async with agent:
        assert (await agent.run("read it", session="s")).text == "done"
        gate.touch()
        await until_released(agent)
        await agent.run("and now?", session="s")
    assert "tests pass" in texts(model)
