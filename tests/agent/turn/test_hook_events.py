"""Events of hooks: their input, and the effect of exit code 2 and of JSON decisions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.providers.scripted import ScriptedProvider
from agent.run.history import MemoryHistory
from agent.settings import ToolSettings
from agent.subagents.definition import SubagentDefinition
from agent.turn.command_hooks import CommandHook, CommandHooks
from agent.turn.hook_events import HookEventName
from agent.types import assistant, user
from tests.agent.props import call, calls, is_summary_request
from tests.agent.turn.recorded_hooks import RecordedHooks

POET = SubagentDefinition("poet", "Writes a line.", "You are a poet.", tools=("list_dir",))
TASK = {"description": "a line", "prompt": "about rain", "subagent_type": "poet"}


def hooks(*commands: tuple[HookEventName, str]) -> CommandHooks:
    return CommandHooks([CommandHook(*each) for each in commands], ToolSettings())


async def recorded(tmp_path: Path, *replies: Any, **options: Any) -> RecordedHooks:
    """Run a turn and return its recorded events."""
    record = RecordedHooks(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("the file\n")
    agent = kore.Agent(
        ScriptedProvider(list(replies)),
        workspace=work,
        hooks=[record.hooks],
        subagents=[POET],
        approve=options.pop("approve", None),
    )
    async with agent:
        await agent.run("hello", **options)
    return record


async def test_conversation_begins_and_ends(tmp_path: Path) -> None:
    record = await recorded(tmp_path, "done")
    assert record.inputs("SessionStart") == [{"source": "startup"}]
    assert record.inputs("UserPromptSubmit") == [{"prompt": "hello"}]
    assert record.inputs("Stop") == [{"stop_hook_active": False, "last_assistant_message": "done"}]
    assert record.inputs("SessionEnd") == [{"reason": "other"}]


async def test_named_conversation_does_not_end_with_its_run(tmp_path: Path) -> None:
    record = await recorded(tmp_path, "done", session="s")
    assert record.inputs("SessionEnd") == []


async def test_call_that_succeeds(tmp_path: Path) -> None:
    record = await recorded(tmp_path, calls(call("read_file", path="a.txt")), "done")
    [before], [after] = record.inputs("PreToolUse"), record.inputs("PostToolUse")
    assert before["tool_name"] == after["tool_name"] == "Read"
    assert before["tool_use_id"] == after["tool_use_id"] != ""
    assert "the file" in after["tool_response"]["content"]
    assert record.inputs("PostToolUseFailure") == []


async def test_call_that_fails(tmp_path: Path) -> None:
    record = await recorded(tmp_path, calls(call("read_file", path="missing.txt")), "done")
    [failure] = record.inputs("PostToolUseFailure")
    assert "missing.txt" in failure["error"]
    assert failure["is_interrupt"] is False
    assert record.inputs("PostToolUse") == []


async def test_failing_command_is_a_failed_call(tmp_path: Path) -> None:
    record = await recorded(tmp_path, calls(call("exec", command="exit 3")), "done", approve=_yes)
    [failure] = record.inputs("PostToolUseFailure")
    assert failure["tool_name"] == "Bash"
    assert "exit code 3" in failure["error"]


async def _yes(question: Any) -> bool:
    return True


@pytest.mark.parametrize(
    "reply",
    [
        calls(call("exec", command="touch a")),
        calls(call("read_file", wrong=1)),
        calls(call("no_such_tool", path="a.txt")),
    ],
)
async def test_call_that_never_began_has_no_event_afterwards(tmp_path: Path, reply: Any) -> None:
    record = await recorded(tmp_path, reply, "done")
    assert record.inputs("PostToolUse") == []
    assert record.inputs("PostToolUseFailure") == []


async def test_question_to_a_person(tmp_path: Path) -> None:
    record = await recorded(tmp_path, calls(call("exec", command="touch a")), "done", approve=_yes)
    [question] = record.inputs("Notification")
    assert question["notification_type"] == "permission_prompt"
    assert question["message"].startswith("exec: ")


async def test_comment_on_a_failed_call(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("read_file", path="missing.txt")), "done"])
    answer = {"hookSpecificOutput": {"additionalContext": "it moved to docs"}}
    both = hooks(
        ("PostToolUseFailure", f"echo '{json.dumps(answer)}'"),
        ("PostToolUseFailure", "echo look again >&2; exit 2"),
        ("PostToolUse", "echo well read >&2; exit 2"),
    )
    await kore.Agent(model, workspace=tmp_path, hooks=[both]).run("?")
    [result] = [message for message in model.requests[-1].messages if message.role == "tool"]
    assert "it moved to docs" in result.text
    assert "look again" in result.text
    assert "well read" not in result.text


async def test_subagent_has_its_own_stop(tmp_path: Path) -> None:
    record = await recorded(tmp_path, calls(call("task", **TASK)), "It rains.", "done", session="s")
    [stop] = record.inputs("SubagentStop")
    assert stop["agent_type"] == "poet"
    assert stop["last_assistant_message"] == "It rains."
    assert stop["agent_id"].startswith("s.")
    assert [item["last_assistant_message"] for item in record.inputs("Stop")] == ["done"]


async def test_hook_makes_a_subagent_continue(tmp_path: Path) -> None:
    command = """grep -q '"stop_hook_active": false' && echo make it longer >&2 && exit 2; exit 0"""
    model = ScriptedProvider(
        [calls(call("task", **TASK)), "It rains.", "It rains and rains no more.", "done"]
    )
    agent = kore.Agent(
        model,
        workspace=tmp_path,
        subagents=[POET],
        hooks=[CommandHooks([CommandHook("SubagentStop", command, "poet")], ToolSettings())],
    )
    await agent.run("a line")
    assert "make it longer" in str(model.requests[2].messages[-1])


async def test_matcher_of_subagent_stop_is_the_agent(tmp_path: Path) -> None:
    hook = CommandHook("SubagentStop", "echo longer >&2; exit 2", "critic")
    model = ScriptedProvider([calls(call("task", **TASK)), "It rains.", "done"])
    agent = kore.Agent(
        model,
        workspace=tmp_path,
        subagents=[POET],
        hooks=[CommandHooks([hook], ToolSettings())],
    )
    assert (await agent.run("a line")).text == "done"


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
async def test_event_that_cannot_be_blocked(tmp_path: Path, event: HookEventName) -> None:
    model = ScriptedProvider(["done"])
    agent = kore.Agent(
        model, workspace=tmp_path, hooks=[hooks((event, "echo not today >&2; exit 2"))]
    )
    result = await agent.run("hello")
    assert result.text == "done"
    assert "not today" not in str(model.requests[0].messages)


async def test_reason_of_a_start_hook_is_shown(tmp_path: Path) -> None:
    agent = kore.Agent(
        ScriptedProvider(["done"]),
        workspace=tmp_path,
        hooks=[hooks(("SessionStart", "echo no network >&2; exit 2"))],
    )
    notices = [event.text async for event in agent.stream("?") if event.type == "notice"]
    assert any("no network" in notice for notice in notices)


async def test_message_to_the_person_is_a_notice(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"])
    command = """echo '{"systemMessage": "42 tests ran"}'"""
    agent = kore.Agent(model, workspace=tmp_path, hooks=[hooks(("UserPromptSubmit", command))])
    notices = [event.text async for event in agent.stream("?") if event.type == "notice"]
    assert notices == ["42 tests ran"]
    assert "42 tests" not in str(model.requests[0].messages)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_hook_of_a_call_ends_the_turn(tmp_path: Path, event: HookEventName) -> None:
    (tmp_path / "a.txt").write_text("the file\n")
    answer = json.dumps({"continue": False, "stopReason": "budget spent"})
    model = ScriptedProvider([calls(call("read_file", path="a.txt")), "more", "fine"])
    agent = kore.Agent(model, workspace=tmp_path, hooks=[hooks((event, f"echo '{answer}'"))])
    result = await agent.run("?", session="s")
    assert result.stopped == "hook"
    assert "budget spent" in result.text
    assert len(model.requests) == 1
    agent.hooks = ()
    assert (await agent.run("and now?", session="s")).text == "more"


@pytest.mark.parametrize("is_blocked", [True, False])
async def test_compaction_in_a_turn(tmp_path: Path, is_blocked: bool) -> None:
    record = RecordedHooks(tmp_path)
    history = MemoryHistory()
    old = [item for n in range(40) for item in (user(f"q{n} " * 100), assistant("a " * 400))]
    await history.append("s", old)
    work = tmp_path / "work"
    work.mkdir()
    blocking = [hooks(("PreCompact", "exit 2"))] if is_blocked else []
    provider = ScriptedProvider([lambda request: "short"] * 5)
    agent = kore.Agent(provider, workspace=work, history=history, hooks=[record.hooks, *blocking])
    agent.models._open[provider.name] = replace(agent.models.open(), context_tokens=14_000)
    assert (await agent.run("now", session="s")).text == "short"
    [compaction] = record.inputs("PreCompact")
    assert compaction == {"trigger": "auto", "custom_instructions": ""}
    assert any(map(is_summary_request, provider.requests)) != is_blocked
