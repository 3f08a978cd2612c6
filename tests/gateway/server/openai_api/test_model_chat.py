"""Chat completions by a model's name, without Kore's agent."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.errors import KoreError
from agent.types import ImageFile, Message, user
from gateway.core.records import ModelCall, ModelTool
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, Call, ReplyScript
from tests.gateway.server.openai_api.clients import (
    client_of,
    says,
    served_with_model,
    streamed_chunks,
)
from tests.gateway.server.served import Served

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Served, ModelServer]]:
    async with served_with_model(tmp_path) as both:
        yield both


@pytest.mark.counterpart("openai")
async def test_model_and_profile_by_name(both: tuple[Served, ModelServer]) -> None:
    server, model = both
    model.script(ReplyScript("one"), ReplyScript("two"))
    async with client_of(server) as client:
        names = [item.id async for item in client.models.list()]
        assert {"kore", "stand-in", "default"} <= set(names)
        answers = [
            await client.chat.completions.create(
                model=name,
                messages=[{"role": "system", "content": "be brief"}, *says("hi")],
                temperature=0.5,
                max_tokens=7,
            )
            for name in ("stand-in", "default")
        ]
    assert [answer.choices[0].message.content for answer in answers] == ["one", "two"]
    assert answers[0].usage is not None
    assert answers[0].usage.prompt_tokens > 0
    body = model.requests[0].body
    assert body["messages"][0] == {"role": "system", "content": "be brief"}
    assert body["temperature"] == 0.5
    assert "tools" not in body
    assert (await server.call("list_sessions"))[1] == []
    # Direct model calls count towards the spending in the status.
    assert (await server.call("status"))[1]["spent_today"]["calls"] == 2


@pytest.mark.counterpart("openai")
@pytest.mark.parametrize("is_stream", [False, True])
async def test_client_tools(both: tuple[Served, ModelServer], is_stream: bool) -> None:
    server, model = both
    model.script(
        ReplyScript(tool_calls=(Call("weather", {"place": "Rome"}),)), ReplyScript("sunny")
    )
    mapping: dict[str, Any] = {"model": "stand-in", "tools": [WEATHER], "tool_choice": "auto"}
    async with client_of(server) as client:
        if is_stream:
            async with client.chat.completions.stream(messages=says("?"), **mapping) as stream:
                first = await stream.get_final_completion()
        else:
            first = await client.chat.completions.create(messages=says("?"), **mapping)
        assert first.choices[0].finish_reason == "tool_calls"
        (call,) = first.choices[0].message.tool_calls or ()
        assert call.type == "function"
        assert (call.function.name, call.function.arguments.replace(" ", "")) == (
            "weather",
            '{"place":"Rome"}',
        )
        result: Any = {"role": "tool", "tool_call_id": call.id, "content": "25 degrees"}
        outcome: Any = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": call.function.arguments},
                }
            ],
        }
        second = await client.chat.completions.create(
            messages=[*says("?"), outcome, result], **mapping
        )
    assert second.choices[0].message.content == "sunny"
    sent = model.requests[1].body
    assert sent["messages"][-1] == {
        "role": "tool",
        "tool_call_id": call.id,
        "content": "25 degrees",
    }
    assert sent["tool_choice"] == "auto"


async def test_stream(both: tuple[Served, ModelServer]) -> None:
    server, model = both
    model.script(ReplyScript("a few words"))
    chunks = await streamed_chunks(server, "stand-in", "hi")
    words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(words) == "a few words"
    assert chunks[-1].usage is not None


async def test_request_rejected_by_the_model_is_an_error(both: tuple[Served, ModelServer]) -> None:
    server, _ = both
    async with client_of(server) as client:
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(
                model="stand-in", messages=says("x"), temperature=9
            )
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(
                model="stand-in",
                messages=says("x"),
                tools=[{"type": "custom"}],  # type: ignore[list-item,typeddict-item]
            )


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"extra_body": {"model": "another"}}},
        {"options": {"messages": []}},
        {"temperature": 9.0},
        {"messages": (Message("user", (ImageFile("/etc/passwd", "image/png", "0"),)),)},
        {"tools": (ModelTool("no name", "", {}),)},
        {"model": "nobody"},
    ],
)
async def test_call_cannot_change_settings(
    both: tuple[Served, ModelServer], changes: dict[str, Any]
) -> None:
    server, model = both
    call = replace(ModelCall("stand-in", "", (user("hi"),)), **changes)
    with pytest.raises(KoreError):
        async with server.parts.service.call_model(call) as items:
            assert [item async for item in items] == []
    assert not model.requests


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_whole_answer_survives_a_reply_that_breaks_off(
    both: tuple[Served, ModelServer], api: str
) -> None:
    server, model = both
    model.script(
        ReplyScript("half of it", breaks=Break("reset", after=2)), ReplyScript("all of it")
    )
    async with client_of(server) as client:
        if api == "chat":
            completion = await client.chat.completions.create(model="stand-in", messages=says("?"))
            answer = completion.choices[0].message.content
        else:
            answer = (await client.responses.create(model="stand-in", input="?")).output_text
    assert answer == "all of it"


SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {"name": "place", "schema": {"type": "object"}, "strict": True},
}


@pytest.mark.counterpart("openai")
async def test_settings_reach_the_model(both: tuple[Served, ModelServer]) -> None:
    server, model = both
    fields: dict[str, Any] = {
        "logit_bias": {"50256": -100},
        "parallel_tool_calls": False,
        "prompt_cache_key": "chat-7",
        "response_format": SCHEMA,
        "service_tier": "flex",
        "verbosity": "low",
    }
    async with client_of(server) as client:
        await client.chat.completions.create(
            model="stand-in", messages=says("hi"), tools=[WEATHER], **fields
        )
    body = model.requests[0].body
    assert {name: body.get(name) for name in fields} == fields


@pytest.mark.counterpart("openai")
async def test_settings_of_a_response_reach_the_model(both: tuple[Served, ModelServer]) -> None:
    server, model = both
    text: Any = {
        "format": {"type": "json_schema", "name": "place", "schema": {"type": "object"}},
        "verbosity": "low",
    }
    async with client_of(server) as client:
        await client.responses.create(
            model="stand-in", input="hi", text=text, service_tier="flex", prompt_cache_key="chat-7"
        )
    body = model.requests[0].body
    assert body["response_format"]["json_schema"] == {"name": "place", "schema": {"type": "object"}}
    assert body["verbosity"] == "low"
    assert body["service_tier"] == "flex"
    assert body["prompt_cache_key"] == "chat-7"
