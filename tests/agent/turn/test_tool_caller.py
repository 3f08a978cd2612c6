"""Tools that the program runs itself: returned calls, and results that continue the turn."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError, ProviderError
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.scripted import ScriptedProvider
from agent.run.history import JsonlHistory
from agent.turn.tool_caller import ToolCaller
from agent.types import Message, Text, ToolCall, ToolResult, assistant
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a day.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
AREA = {
    "name": "geometry.area",
    "description": "The area of a circle.",
    "input_schema": {"type": "object", "properties": {"radius": {"type": "number"}}},
}


def models(server: ModelServer, key: str = "sk-secret-key-1") -> ModelPool:
    entry = ModelConfig("fake", "openai/fake", api_base=server.base_url, api_keys=(key,))
    return ModelPool("fake", known=[entry])


async def test_step_returns_calls_and_continues_with_results(model_server: ModelServer) -> None:
    model_server.script(
        ReplyScript(
            text="Let me see.",
            tool_calls=(
                Call("weather", {"city": "Oslo", "days": "2"}),
                Call("geometry_area", {"radius": 1}),
            ),
        ),
        ReplyScript(tool_calls=(Call("weather", {"city": "Rome"}),)),
        ReplyScript(text="Rain."),
    )
    async with ToolCaller(
        models(model_server), [WEATHER, AREA], instructions="Be brief."
    ) as caller:
        step = await caller.ask("How is it in Oslo?")
        first, second = step.calls
        assert (step.text, step.finish_reason) == ("Let me see.", "tool_calls")
        # The number sent as text is converted, and the tool has the program's name.
        assert (first.name, first.arguments) == ("weather", {"city": "Oslo", "days": 2})
        assert (second.name, second.arguments) == ("geometry.area", {"radius": 1})
        assert step.usage.input > 0
        step = await caller.answer({second.id: "3.14", first.id: ToolResult("no", is_error=True)})
        assert [call.arguments for call in step.calls] == [{"city": "Rome"}]
        step = await caller.answer({step.calls[0].id: "rain"})
        assert (step.text, step.calls) == ("Rain.", ())
    bodies = [request.body for request in model_server.requests]
    assert bodies[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How is it in Oslo?"},
    ]
    # The tools of Kore are not among them.
    names = [tool["function"]["name"] for tool in bodies[0]["tools"]]
    assert names == ["weather", "geometry_area"]
    results = [m["content"] for m in bodies[1]["messages"] if m["role"] == "tool"]
    assert results == ["no", "3.14"]
    assert all(body["messages"][:4] == bodies[1]["messages"][:4] for body in bodies[1:])


async def test_conversation_is_resumed_from_a_file(
    tmp_path: Path, model_server: ModelServer
) -> None:
    model_server.script(
        ReplyScript(tool_calls=(Call("weather", {"city": "Oslo"}),)), ReplyScript(text="Rain.")
    )
    history = JsonlHistory(tmp_path)
    async with ToolCaller(models(model_server), [WEATHER]) as caller:
        await caller.ask("How is it?")
        await history.append("a", caller.messages)
    messages = await history.load("a")
    async with ToolCaller(models(model_server), [WEATHER], messages=messages) as later:
        (call,) = later.waiting
        step = await later.answer({call.id: "rain"})
        assert step.text == "Rain."
        assert [message.role for message in later.messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]


async def test_invented_calls_are_returned_unchanged(model_server: ModelServer) -> None:
    made_up = (Call("nothing", {"x": 1}), Call("weather", {"days": "soon"}), Call("weather", "{no"))
    model_server.script(ReplyScript(tool_calls=made_up))
    async with ToolCaller(models(model_server), [WEATHER]) as caller:
        step = await caller.ask("Go.")
    results = [(call.name, call.arguments) for call in step.calls]
    assert results == [("nothing", {"x": 1}), ("weather", {"days": "soon"}), ("weather", None)]
    assert step.calls[2].raw == "{no"


async def test_empty_reply_is_requested_again(model_server: ModelServer) -> None:
    model_server.script(ReplyScript(text=""), ReplyScript(text="Yes."))
    async with ToolCaller(models(model_server)) as caller:
        step = await caller.ask("Well?")
    assert step.text == "Yes."
    assert len(model_server.requests) == 2
    assert len(caller.messages) == 2


async def test_results_must_match_the_calls() -> None:
    calls = (ToolCall("c1", "weather", {}, "{}"), ToolCall("c2", "weather", {}, "{}"))
    caller = ToolCaller(ScriptedProvider([assistant("", calls), "Done."]), [WEATHER])
    with pytest.raises(ConfigError, match="no call"):
        await caller.answer({"c1": "x"})
    await caller.ask("Go.")
    with pytest.raises(ConfigError, match="are waiting for their results"):
        await caller.ask("And?")
    for results in ({"c1": "x"}, {"c1": "x", "c2": "y", "c3": "z"}, {}):
        with pytest.raises(ConfigError, match="one for each of c1, c2"):
            await caller.answer(results)
    assert (await caller.answer({"c1": "x", "c2": "y"})).text == "Done."


async def test_failed_step_can_be_repeated(model_server: ModelServer) -> None:
    model_server.script(refusal(401, "sk-secret-key-1 is wrong"), ReplyScript(text="Yes."))
    async with ToolCaller(models(model_server)) as caller:
        with pytest.raises(ProviderError) as raised:
            await caller.ask("Well?")
        assert "sk-secret" not in str(raised.value)
        assert caller.messages == []
        assert (await caller.ask("Well?")).text == "Yes."


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([{"description": "no name"}], "expected a schema"),
        ([{"name": "a", "parameters": {"type": "array"}}], "expected a schema"),
        ([{"type": "function", "function": "a"}], "expected a schema"),
        ([{"name": "a"}, {"name": "a"}], "two are called 'a'"),
    ],
)
def test_invalid_schema_is_rejected(tools: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ToolCaller("offline/echo", tools)


def test_names_that_normalize_to_the_same_name_stay_distinct() -> None:
    caller = ToolCaller(ScriptedProvider([]), [{"name": "a.b"}, {"name": "a_b"}, {"name": "a b"}])
    assert [spec.name for spec in caller._specs] == ["a_b", "a_b_2", "a_b_3"]


def test_invalid_conversation_is_rejected() -> None:
    orphan = Message("tool", (Text("x"),), tool_call_id="c9")
    with pytest.raises(ConfigError, match="followed directly by its result"):
        ToolCaller("offline/echo", messages=[orphan])
