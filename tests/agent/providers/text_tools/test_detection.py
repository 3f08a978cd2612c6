"""Detection of calls written as text by a model with native tools."""

import json
from typing import Literal

import pytest

from agent.events import ModelEvent, Notice, Reply, TextDelta
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.scripted import ScriptedProvider, Step
from agent.providers.text_tools.detection import DetectionBuffer, detect_calls
from agent.types import ToolCall, assistant, user

TOOL = ToolSpec("exec", "Run.", {"properties": {"command": {"type": "string"}}})
ASKED = ModelRequest("m", "", (user("hi"),), (TOOL,))
ARGUMENTS = '{"command": "ls"}'
NATIVE = assistant("", (ToolCall("c1", "exec", {"command": "ls"}, ARGUMENTS),))
CALLS = (
    f'{{"name": "exec", "arguments": {ARGUMENTS}}}',
    f'{{"name": "exec", "parameters": {ARGUMENTS}}}',
    f'{{"type": "function", "name": "exec", "parameters": {ARGUMENTS}}}',
    f'{{"type": "function", "function": {{"name": "exec", "arguments": {ARGUMENTS}}}}}',
    json.dumps({"function": {"name": "exec", "arguments": ARGUMENTS}}),
    f'{{"function": "exec", "arguments": {ARGUMENTS}}}',
    f'{{"tool": "exec", "args": {ARGUMENTS}}}',
    f'[{{"name": "exec", "arguments": {ARGUMENTS}}}]',
    f'[TOOL_CALLS][{{"name": "exec", "arguments": {ARGUMENTS}}}]',
    f'<|python_tag|>{{"name": "exec", "parameters": {ARGUMENTS}}}',
    f'\n```json\n{{"name": "exec", "arguments": {ARGUMENTS}}}\n```\n',
    f'<tool_call>\n{{"name": "exec", "arguments": {ARGUMENTS}}}\n</tool_call>',
    f'<tool name="exec">{ARGUMENTS}</tool>',
)
NO_CALLS = (
    "hello",
    '{"name": "Ada", "age": 36}',
    '{"name": "rm", "arguments": {}}',
    f'{{"name": "exec", "arguments": {ARGUMENTS}}} is how a call looks',
    f'An example: {{"name": "exec", "arguments": {ARGUMENTS}}}',
    f'Write <tool name="exec">{ARGUMENTS}</tool> to run a command.',
    f'<tool_call>{{"name": "rm", "arguments": {ARGUMENTS}}}</tool_call>',
    "<tool_call>{",
    "[]",
    "[1]",
    "{}",
    "[" * 5000,
    "",
)


BROKEN = (
    '<tool_call>{"name": "exec", "arguments": {"command": "ls}</tool_call>',
    '<tool_call>{"name": "exec", "arguments": {"command": "ls"}',
    '<tool name="exec">{"command": "ls</tool>',
    '{"name": "exec", "arguments": {"command": "say "hi""}}',
    '{"name": "exec", "arguments": {"command": "ls"',
    '```json\n{"name": "exec", "arguments": {command: ls}}\n```',
    '[TOOL_CALLS][{"name": "exec", "arguments": {"command": "ls}}]',
)
REPAIRABLE = '<tool_call>{"name": "exec", "arguments": {"command": "ls",}}</tool_call>'


async def events_of(provider: CapabilityFallback, asked: ModelRequest = ASKED) -> list[ModelEvent]:
    return [event async for event in provider.stream(asked)]


def shown_text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def last_reply(events: list[ModelEvent]) -> Reply:
    assert isinstance(events[-1], Reply)
    return events[-1]


@pytest.mark.parametrize("text", CALLS)
async def test_call_that_is_the_whole_text_is_not_shown(text: str) -> None:
    events = await events_of(CapabilityFallback(ScriptedProvider([text])))
    assert shown_text(events) == ""
    (call,) = last_reply(events).message.tool_calls
    assert (call.name, call.arguments) == ("exec", {"command": "ls"})
    assert last_reply(events).message.text == ""


@pytest.mark.parametrize("text", NO_CALLS)
async def test_text_that_only_looks_like_a_call_stays_text(text: str) -> None:
    events = await events_of(CapabilityFallback(ScriptedProvider([text])))
    assert shown_text(events) == text
    assert last_reply(events).message == assistant(text)
    assert not any(isinstance(event, Notice) for event in events)


async def test_text_before_a_call_is_shown_and_ids_continue() -> None:
    text = f"I look.\n<tool_call>{CALLS[0]}</tool_call>"
    events = await events_of(CapabilityFallback(ScriptedProvider([text])))
    assert last_reply(events).message.text == "I look."
    calls = detect_calls(f"[{CALLS[0]}, {CALLS[1]}]", (TOOL,), 7)
    assert calls is not None
    assert [call.id for call in calls.calls] == ["call_7", "call_8"]


async def test_text_tools_are_announced_once() -> None:
    model = ScriptedProvider([CALLS[0], CALLS[1], "done"])
    provider = CapabilityFallback(model)
    events = [await events_of(provider) for _ in range(3)]
    notices = [item.text for turn in events for item in turn if isinstance(item, Notice)]
    assert len(notices) == 1
    assert 'tools: "xml"' in notices[0]
    assert [bool(request.tools) for request in model.requests] == [True, False, False]
    assert [bool(last_reply(turn).message.tool_calls) for turn in events] == [True, True, False]


async def test_text_calls_do_not_run_with_native_tools() -> None:
    provider = CapabilityFallback(ScriptedProvider([CALLS[0], CALLS[0]]), tools="native")
    events = [await events_of(provider) for _ in range(2)]
    assert [shown_text(turn) for turn in events] == [CALLS[0]] * 2
    assert not any(last_reply(turn).message.tool_calls for turn in events)
    assert sum(isinstance(item, Notice) for turn in events for item in turn) == 1


@pytest.mark.parametrize("tools", [None, "native"])
async def test_text_calls_are_ignored_after_a_native_call(
    tools: Literal["native"] | None,
) -> None:
    replies: list[Step] = [NATIVE, CALLS[0]]
    provider = CapabilityFallback(ScriptedProvider(replies), tools=tools)
    await events_of(provider)
    events = await events_of(provider)
    assert shown_text(events) == CALLS[0]
    assert not last_reply(events).message.tool_calls


@pytest.mark.parametrize("text", ["Hi there", "{ so to speak", "```py\nprint()", "[1] says", " "])
def test_only_text_that_may_become_a_call_is_held_back(text: str) -> None:
    buffer = DetectionBuffer()
    assert "".join(map(buffer.add, text)) + buffer.release() == text
    long = text + " and so on" * 5
    buffer = DetectionBuffer()
    assert "".join(map(buffer.add, long)) == long


@pytest.mark.parametrize("has_called", [False, True], ids=["first", "after a native call"])
@pytest.mark.parametrize("text", BROKEN)
async def test_call_with_broken_json_is_an_error_for_the_model(text: str, has_called: bool) -> None:
    replies: list[Step] = [NATIVE, text] if has_called else [text]
    provider = CapabilityFallback(ScriptedProvider(replies))
    events = [await events_of(provider) for _ in replies][-1]
    assert shown_text(events) == ""
    (call,) = last_reply(events).message.tool_calls
    assert (call.name, call.arguments) == ("exec", None)


async def test_text_before_a_broken_call_is_shown_without_the_call() -> None:
    replies: list[Step] = [NATIVE, f"I look at 1 < 2.\n{BROKEN[0]}"]
    provider = CapabilityFallback(ScriptedProvider(replies))
    events = [await events_of(provider) for _ in replies][-1]
    assert shown_text(events).rstrip() == "I look at 1 < 2."
    assert last_reply(events).message.text == "I look at 1 < 2."


async def test_repairable_call_runs() -> None:
    events = await events_of(CapabilityFallback(ScriptedProvider([REPAIRABLE])))
    (call,) = last_reply(events).message.tool_calls
    assert call.arguments == {"command": "ls"}


async def test_prose_with_a_tag_is_shown_at_the_end() -> None:
    text = 'Write <tool name="exec"> to begin a call.'
    events = await events_of(CapabilityFallback(ScriptedProvider([text])))
    assert shown_text(events) == text


async def test_alias_of_a_tool_is_a_call_of_it() -> None:
    tool = ToolSpec(TOOL.name, TOOL.description, TOOL.parameters, aliases=("runcommand",))
    request = ModelRequest("m", "", (user("hi"),), (tool,))
    provider = CapabilityFallback(ScriptedProvider(["<tool name='run_command'>ls</tool>"]))
    events = await events_of(provider, request)
    (call,) = last_reply(events).message.tool_calls
    assert (call.name, call.arguments) == ("run_command", {"command": "ls"})
