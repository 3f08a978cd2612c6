"""Hooks and guardrails of a program in whole turns."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.errors import PolicyDenied
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider, reply_events
from agent.types import assistant
from tests.agent.props import call, calls

RAN: list[str] = []


@kore.tool
def look(place: str) -> str:
    """Look somewhere."""
    RAN.append(place)
    return f"a {place}"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


class Log(kore.Hooks[Any]):
    def __init__(self) -> None:
        self.lines: list[str] = []

    async def before_model(self, run: kore.RunContext[Any], request: ModelRequest) -> None:
        self.lines.append(f"ask {request.messages[-1].text}")

    async def after_model(
        self, run: kore.RunContext[Any], request: ModelRequest, reply: kore.Message
    ) -> None:
        self.lines.append(f"reply {reply.text or reply.tool_calls[0].name}")

    async def before_tool(self, run: kore.RunContext[Any], call: kore.ToolCall) -> None:
        self.lines.append(f"call {call.name} by {run.agent} with {run.deps}")

    async def after_tool(
        self, run: kore.RunContext[Any], call: kore.ToolCall, result: kore.ToolResult
    ) -> None:
        self.lines.append(f"result {result.for_model}")


async def test_hooks_see_each_call(tmp_path: Path) -> None:
    log = Log()
    model = ScriptedProvider([calls(call("look", place="door")), "a door"])
    await kore.run("?", model=model, workspace=tmp_path, tools=[look], hooks=[log], deps=7)
    assert log.lines == [
        "ask ?",
        "reply look",
        "call look by main with 7",
        "result a door",
        "ask a door",
        "reply a door",
    ]


class Change(kore.Hooks[Any]):
    """Hooks that behave as the fields specify."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    async def before_model(self, run: Any, request: ModelRequest) -> Any:
        return self._take("before_model", request)

    async def after_model(self, run: Any, request: Any, reply: kore.Message) -> Any:
        return self._take("after_model", reply)

    async def before_tool(self, run: Any, call: Any) -> Any:
        return self._take("before_tool", call)

    async def after_tool(self, run: Any, call: Any, result: kore.ToolResult) -> Any:
        return self._take("after_tool", result)

    def _take(self, name: str, subject: Any) -> Any:
        value = self.values.get(name)
        if isinstance(value, Exception):
            raise value
        return value(subject) if callable(value) else value


async def test_hook_replaces_the_result_of_a_tool_without_running_it(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("look", place="door")), "ok"])
    hook = Change(before_tool=kore.ToolResult("a wall"))
    result = await kore.run("?", model=model, workspace=tmp_path, tools=[look], hooks=[hook])
    assert result.messages[1].text == "a wall"
    assert RAN == []


async def test_last_hook_changes_a_result_first(tmp_path: Path) -> None:
    def add(letter: str) -> Change:
        return Change(after_tool=lambda item: replace(item, for_model=item.for_model + letter))

    model = ScriptedProvider([calls(call("look", place="door")), "ok"])
    hooks = [add("1"), add("2")]
    result = await kore.run("?", model=model, workspace=tmp_path, tools=[look], hooks=hooks)
    assert result.messages[1].text == "a door21"
    # The tool's text in the conversation stays marked.
    assert result.messages[1].taint == {"untrusted", "private"}


async def test_hook_rejects_a_tool_call(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("look", place="door")), "ok"])
    hook = Change(before_tool=PolicyDenied("not on Sundays"))
    result = await kore.run("?", model=model, workspace=tmp_path, tools=[look], hooks=[hook])
    assert (result.messages[1].text, result.messages[1].is_error) == ("not on Sundays", True)
    assert RAN == []


async def test_hook_changes_a_model_request(tmp_path: Path) -> None:
    model = ScriptedProvider(["ok"])
    hook = Change(before_model=lambda request: replace(request, system="Be short."))
    await kore.run("?", model=model, workspace=tmp_path, hooks=[hook])
    assert model.requests[0].system == "Be short."


async def test_hook_answers_instead_of_the_model(tmp_path: Path) -> None:
    model = ScriptedProvider([])
    hook = Change(before_model=assistant("from the cache"))
    agent = kore.Agent(model, workspace=tmp_path, hooks=[hook])
    texts = [
        item.text async for item in agent.stream("?") if isinstance(item, kore.events.TextDelta)
    ]
    result = await agent.run("?")
    assert (texts, result.text) == (["from the cache"], "from the cache")
    assert (model.requests, result.usage) == ([], kore.Usage())


async def test_hook_changes_a_reply(tmp_path: Path) -> None:
    hook = Change(after_model=lambda reply: assistant(reply.text.upper()))
    agent = kore.Agent(ScriptedProvider(["hello"]), workspace=tmp_path, hooks=[hook])
    seen = [item async for item in agent.stream("?", session="s")]
    kinds = [type(item).__name__ for item in seen]
    assert kinds.index("Retry") < len(kinds) - kinds[::-1].index("TextDelta")
    assert seen[-1].result.text == "HELLO"
    assert seen[-1].result.usage.output > 0


async def test_hook_rejects_a_model_request(tmp_path: Path) -> None:
    model = ScriptedProvider([])
    hook = Change(before_model=PolicyDenied("closed"))
    with pytest.raises(kore.PolicyDenied, match="closed"):
        await kore.run("?", model=model, workspace=tmp_path, hooks=[hook])


async def test_bug_in_a_hook_is_raised(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("look", place="door")), "ok"])
    hook = Change(after_tool=ZeroDivisionError("oh"))
    with pytest.raises(ZeroDivisionError):
        await kore.run("?", model=model, workspace=tmp_path, tools=[look], hooks=[hook])


async def test_hooks_apply_to_tools_of_subagents(tmp_path: Path) -> None:
    result = call("task", description="d", prompt="look", subagent_type="scout")
    model = ScriptedProvider([calls(result), calls(call("look", place="cave")), "dark", "done"])
    log = Log()
    scout = kore.Definition("scout", "Looks.", "You look.")
    await kore.run(
        "?", model=model, workspace=tmp_path, tools=[look], hooks=[log], subagents=[scout]
    )
    assert "call look by scout with None" in log.lines


@kore.input_guardrail
def no_passwords(run: kore.RunContext[Any], message: kore.Message) -> str | None:
    return "it holds a password" if "password" in message.text else None


@kore.output_guardrail
async def polite(run: kore.RunContext[Any], result: kore.Result) -> str | None:
    return "rude" if "fool" in result.text else None


async def test_input_guardrail_stops_before_the_model_is_called(tmp_path: Path) -> None:
    model = ScriptedProvider(["hello"])
    history = kore.MemoryHistory()
    agent = kore.Agent(model, workspace=tmp_path, history=history, input_guardrails=[no_passwords])
    with pytest.raises(kore.InputGuardrailTripped) as trip:
        await agent.run("my password is x", session="s")
    assert (trip.value.guardrail, trip.value.reason) == ("no_passwords", "it holds a password")
    assert model.requests == []
    assert await history.load("s") == []
    assert (await agent.run("hi", session="s")).text == "hello"


async def test_tripped_guardrail_is_an_error_event(tmp_path: Path) -> None:
    agent = kore.Agent(ScriptedProvider([]), workspace=tmp_path, input_guardrails=[no_passwords])
    seen = [item async for item in agent.stream("password")]
    errors = [item.code for item in seen if isinstance(item, kore.events.Error)]
    assert errors == ["input-guardrail"]
    assert isinstance(seen[-1], kore.events.Done)
    assert not seen[-1].result.success


class Waiting:
    """A model that waits for permission to answer."""

    name = "waiting"

    def __init__(self) -> None:
        self.asked_once, self.may_answer = asyncio.Event(), asyncio.Event()
        self.is_cancelled = False

    async def stream(self, request: ModelRequest) -> Any:
        self.asked_once.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        for event in reply_events(request, assistant("hello")):
            yield event


@pytest.mark.parametrize("reason", [None, "no"])
async def test_input_guardrail_runs_concurrently_with_the_model(
    tmp_path: Path, reason: str | None
) -> None:
    model = Waiting()

    @kore.input_guardrail(run_in_parallel=True, name="slow")
    async def check(run: kore.RunContext[Any], message: kore.Message) -> str | None:
        await model.asked_once.wait()
        if reason is None:
            model.may_answer.set()
        return reason

    agent = kore.Agent(model, workspace=tmp_path, input_guardrails=[check])
    if reason is None:
        assert (await agent.run("hi")).text == "hello"
        return
    with pytest.raises(kore.InputGuardrailTripped, match="slow tripped: no"):
        await agent.run("hi")
    assert model.is_cancelled


async def test_output_guardrail_withholds_an_answer(tmp_path: Path) -> None:
    model = ScriptedProvider(["you fool", "sorry"])
    agent = kore.Agent(model, workspace=tmp_path, output_guardrails=[polite])
    with pytest.raises(kore.OutputGuardrailTripped, match="rude"):
        await agent.run("hi", session="s")
    assert (await agent.run("again", session="s")).text == "sorry"
    assert [message.text for message in model.requests[1].messages] == [
        "hi",
        "(This answer was withheld.)",
        "again",
    ]


@dataclass
class City:
    name: str


async def test_guardrails_check_text_and_typed_answer(tmp_path: Path) -> None:
    seen: list[Any] = []

    @kore.input_guardrail
    def hear(run: kore.RunContext[Any], message: kore.Message) -> None:
        seen.append(message.text)

    @kore.output_guardrail
    def known_city(run: kore.RunContext[Any], result: kore.Result) -> str | None:
        seen.append(result.output)
        return None if result.output.name == "Oslo" else "unknown city"

    model = ScriptedProvider(["Oslo!", '{"name": "Oslo"}', '{"name": "Rome"}'])
    agent = kore.Agent(
        model, workspace=tmp_path, input_guardrails=[hear], output_guardrails=[known_city]
    )
    assert (await agent.run("Where?", output_type=City)).output == City("Oslo")
    assert seen == ["Where?", City("Oslo")]
    with pytest.raises(kore.GuardrailTripped, match="unknown city"):
        await agent.run("Where?", output_type=City)
