"""Checks of `/v1/responses`: Open Responses' compliance suite, OpenAI's client, and Kore's own.

The checks of the suite are reimplemented under its names, since no package provides them.
"""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.providers.scripted import ScriptedProvider
from agent.types import ToolCall, assistant
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.server.openai_api.clients import client_of, served_with_model
from tests.gateway.server.served import Served, served

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "of a place",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
}
# Required fields of a response in Open Responses, including nullable fields.
REQUIRED = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
    *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice"),
    *("truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty"),
    *("frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
}
Both = tuple[Served, ModelServer]


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with served_with_model(tmp_path) as both:
        yield both


async def post(server: Served, **body: Any) -> tuple[int, dict[str, Any]]:
    async with (
        server.session("chat") as session,
        session.post("/v1/responses", json=body) as response,
    ):
        return response.status, await response.json()


async def events_of(server: Served, **body: Any) -> list[dict[str, Any]]:
    """Return the events of a stream, each named by its type; the last line is `[DONE]`."""
    async with (
        server.session("chat") as session,
        session.post("/v1/responses", json={**body, "stream": True}) as response,
    ):
        assert response.content_type == "text/event-stream"
        blocks = (await response.text()).strip().split("\n\n")
    assert blocks.pop() == "data: [DONE]"
    events = []
    for block in blocks:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def check(response: Mapping[str, Any], status: str = "completed") -> None:
    """Check the shape of a complete response."""
    assert response.keys() >= REQUIRED
    assert response["object"] == "response"
    assert response["status"] == status
    assert response["completed_at"] >= response["created_at"]
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    for item in response["output"]:
        assert item["id"]
        assert item["status"] in ("completed", "incomplete")
        for part in item.get("content", ()):
            assert part.keys() == {"type", "text", "annotations", "logprobs"}


def text_of(response: Mapping[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))


MODELS = pytest.mark.parametrize("model", ["stand-in", "kore"])


@MODELS
async def test_basic_text_response(both: Both, model: str) -> None:
    server, backend = both
    backend.script(ReplyScript("hello there"))
    question = [{"type": "message", "role": "user", "content": "Say hello."}]
    status, response = await post(server, model=model, input=question)
    assert status == 200
    check(response)
    assert text_of(response) == "hello there"
    assert response["model"] == model


@MODELS
async def test_streaming_response(both: Both, model: str) -> None:
    server, backend = both
    backend.script(ReplyScript("one two three"))
    events = await events_of(server, model=model, input="Count.")
    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    assert deltas
    assert kinds == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * deltas,
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"].keys() >= REQUIRED
    words = [event["delta"] for event in events if event["type"].endswith("text.delta")]
    assert "".join(words) == "one two three"
    check(events[-1]["response"])
    assert text_of(events[-1]["response"]) == "one two three"


async def messages_for_model(both: Both, model: str, question: Sequence[Any]) -> str:
    """Return the messages sent to the model for a question, as JSON."""
    server, backend = both
    backend.script(ReplyScript("an answer"))
    status, response = await post(server, model=model, input=question)
    assert status == 200
    check(response)
    return json.dumps(backend.requests[0].body["messages"])


@MODELS
async def test_system_prompt(both: Both, model: str) -> None:
    question = [
        {"type": "message", "role": "system", "content": "You are a pirate."},
        {"type": "message", "role": "user", "content": "Say hello."},
    ]
    assert "You are a pirate." in await messages_for_model(both, model, question)


async def test_tool_calling(both: Both) -> None:
    server, backend = both
    backend.script(ReplyScript(tool_calls=(Call("get_weather", {"location": "Rome"}),)))
    status, response = await post(
        server, model="stand-in", input="How is the weather in Rome?", tools=[WEATHER]
    )
    assert status == 200
    check(response)
    (call,) = response["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert json.loads(call["arguments"]) == {"location": "Rome"}
    assert response["tools"] == [{**WEATHER, "strict": None}]
    backend.script(ReplyScript("sunny"))
    question = {"role": "user", "content": "How is the weather in Rome?"}
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "25 degrees"}
    _, second = await post(
        server, model="stand-in", input=[question, call, output], tools=[WEATHER]
    )
    assert text_of(second) == "sunny"


async def test_tool_calls_stream(both: Both) -> None:
    server, backend = both
    calls = (Call("get_weather", {"location": "Rome"}), Call("get_weather", {"location": "Oslo"}))
    backend.script(ReplyScript("I look.", tool_calls=calls))
    events = await events_of(server, model="stand-in", input="?", tools=[WEATHER])
    check(events[-1]["response"])
    done = [event for event in events if event["type"].endswith("arguments.done")]
    assert [json.loads(event["arguments"])["location"] for event in done] == ["Rome", "Oslo"]
    for event in done:
        pieces = [
            item["delta"]
            for item in events
            if item["type"].endswith("arguments.delta") and item["item_id"] == event["item_id"]
        ]
        assert "".join(pieces) == event["arguments"]
    kinds = [item["type"] for item in events[-1]["response"]["output"]]
    assert kinds == ["message", "function_call", "function_call"]


@MODELS
async def test_image_input(both: Both, model: str) -> None:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]
    question = [{"type": "message", "role": "user", "content": content}]
    assert PNG in await messages_for_model(both, model, question)


@MODELS
async def test_multi_turn_conversation(both: Both, model: str) -> None:
    question = [
        {"type": "message", "role": "user", "content": "My name is Alice."},
        {"type": "message", "role": "assistant", "content": "Hello Alice!"},
        {"type": "message", "role": "user", "content": "What is my name?"},
    ]
    assert "My name is Alice." in await messages_for_model(both, model, question)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "nobody", "input": "x"}, 404),
        ({"model": "stand-in"}, 400),
        ({"model": "stand-in", "input": [{"type": "item_reference", "id": "x"}]}, 400),
        ({"model": "stand-in", "input": "x", "temperature": 9}, 400),
        ({"model": "stand-in", "input": "x", "previous_response_id": "resp_x"}, 404),
        ({"model": "kore", "input": "x", "previous_response_id": "resp_x"}, 404),
        ({"model": "kore", "input": "x", "background": True}, 400),
        ({"model": "kore", "input": "x", "tools": [WEATHER], "tool_choice": "required"}, 400),
    ],
)
async def test_error_response(both: Both, body: Any, status: int) -> None:
    actual, error = await post(both[0], **body)
    assert actual == status
    assert error["error"].keys() == {"message", "type", "param", "code"}


@MODELS
async def test_response_continues_another(both: Both, model: str) -> None:
    server, backend = both
    backend.script(ReplyScript("Hello Alice!"), ReplyScript("Alice."))
    async with client_of(server) as client:
        first = await client.responses.create(model=model, input="My name is Alice.")
        second = await client.responses.create(
            model=model, input="What is my name?", previous_response_id=first.id
        )
    assert (first.output_text, second.output_text) == ("Hello Alice!", "Alice.")
    assert second.previous_response_id == first.id
    sent = json.dumps(backend.requests[1].body["messages"])
    assert sent.index("My name is Alice.") < sent.index("Hello Alice!") < sent.index("What is my")


@pytest.mark.counterpart("openai")
@MODELS
async def test_openai_client_reads_the_stream(both: Both, model: str) -> None:
    server, backend = both
    backend.script(ReplyScript("one two"))
    async with (
        client_of(server) as client,
        client.responses.stream(model=model, input="Count.") as stream,
    ):
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds[-1] == "response.completed"
    assert final.output_text == "one two"


async def test_calls_and_questions_of_the_agent_are_items(tmp_path: Path) -> None:
    call = ToolCall("1", "exec", {"command": "touch x"}, '{"command": "touch x"}')
    script = [assistant("I try.", (call,)), "done"]
    async with served(tmp_path, ScriptedProvider(script)) as server:
        events = await events_of(server, model="kore", input="do")
        response = events[-1]["response"]
    check(response)
    kinds = [item["type"] for item in response["output"]]
    assert kinds[0] == "message"
    assert "kore:approval" in kinds
    assert "`exec touch x`" in text_of(response)
    (question,) = (item for item in response["output"] if item["type"] == "kore:approval")
    assert question["answer"] == "deny"


async def test_failed_turn_ends_the_stream_as_failed(both: Both) -> None:
    server, backend = both
    backend.mind = lambda _: ReplyScript(status=400)
    events = await events_of(server, model="stand-in", input="x")
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"]


async def test_same_key_returns_the_same_response(both: Both) -> None:
    server, backend = both
    backend.script(ReplyScript("once"))
    async with client_of(server) as client:
        answers = [
            await client.responses.create(
                model="kore", input="x", extra_headers={"Idempotency-Key": "k"}
            )
            for _ in range(2)
        ]
    assert {answer.output_text for answer in answers} == {"once"}
    assert len({answer.id for answer in answers}) == 1
    assert len(backend.requests) == 1


async def test_token_without_chat_scope_gets_no_response(both: Both) -> None:
    async with client_of(both[0], "read") as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.responses.create(model="kore", input="x")
