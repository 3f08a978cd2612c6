"""Assembly of streams from Anthropic and compatible servers."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from agent.errors import Unavailable
from agent.events import Reply
from agent.providers.anthropic.request import VERSION, AnthropicRequestEncoder
from agent.providers.anthropic.response import AnthropicResponseBuilder
from agent.providers.base import ModelRequest
from agent.serialization import message_from_json, message_to_json
from agent.types import Message, Text, Thinking, Usage, user

START = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def read(*payloads: dict[str, Any], number: int = 1) -> Reply:
    reply = AnthropicResponseBuilder(lambda: number)
    for payload in payloads:
        list(reply.add(payload))
    last = list(reply.finish(done=False))[-1]
    assert isinstance(last, Reply)
    return last


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def end(reason: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_each_stop_reason_is_mapped(said: str, meant: str) -> None:
    assert read(START, end(said), STOP).finish_reason == meant


def test_pings_and_unknown_blocks_are_ignored() -> None:
    reply = read(
        START,
        {"type": "ping"},
        {"type": "a_later_invention", "index": 0},
        *block(0, {"type": "server_tool_use", "id": "x", "name": "web", "input": {}}),
        *block(1, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": {}}),
        *block(2, {"type": "text", "text": "he"}, {"type": "text_delta", "text": "llo"}),
        end("end_turn", output_tokens=4),
        STOP,
    )
    assert reply.message.text == "hello"
    assert reply.message.tool_calls == ()
    assert reply.usage == Usage(9, 4, 0)


def test_thinking_between_calls_keeps_its_place() -> None:
    """Anthropic rejects thoughts of the latest reply in another position."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s1"}
    second = {"type": "redacted_thinking", "data": "xx"}
    sent = [
        thought,
        {"type": "tool_use", "id": "a", "name": "one", "input": {"n": 1}},
        second,
        {"type": "tool_use", "id": "b", "name": "two", "input": {}},
        {"type": "tool_use", "id": "c", "name": "three", "input": {}},
    ]
    events = [event for n, result in enumerate(sent) for event in block(n, result)]
    message = read(START, *events, end("tool_use"), STOP).message
    assert [call.id for call in message.tool_calls] == ["a", "b", "c"]
    stored = message_from_json(message_to_json(message))
    results = [Message("tool", (Text("ok"),), (), call.id) for call in stored.tool_calls]
    request = ModelRequest("claude-opus-5", "", (user("hi"), stored, *results))
    body = json.loads(AnthropicRequestEncoder(VERSION).body(request))
    assert body["messages"][1]["content"] == sent


def test_cache_tokens_count_as_input() -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
    start = {"type": "message_start", "message": {"usage": usage}}
    assert read(start, end("end_turn", output_tokens=7), STOP).usage == Usage(113, 7, 100)


def test_usage_at_the_end_of_the_stream_is_used() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 0}}}
    assert read(start, end("end_turn", input_tokens=8, output_tokens=2), STOP).usage == Usage(8, 2)


def test_complete_input_and_calls_without_ids_are_read() -> None:
    tool = {"type": "tool_use", "name": "exec", "input": {"command": "ä"}}
    calls = read(START, *block(0, tool), *block(1, tool), end("tool_use"), STOP, number=7)
    assert [(call.id, call.arguments) for call in calls.message.tool_calls] == [
        ("call_7", {"command": "ä"}),
        ("call_8", {"command": "ä"}),
    ]


def test_interleaved_blocks_are_separated() -> None:
    def piece(index: int, text: str) -> dict[str, Any]:
        delta = {"type": "input_json_delta", "partial_json": text}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    def begin(index: int) -> dict[str, Any]:
        start = {"type": "tool_use", "id": f"t{index}", "name": "exec", "input": {}}
        return {"type": "content_block_start", "index": index, "content_block": start}

    pieces = [piece(0, '{"n":'), piece(1, '{"n":'), piece(0, "0}"), piece(1, "1}")]
    reply = read(START, begin(0), begin(1), *pieces, end("tool_use"), STOP)
    assert [call.arguments for call in reply.message.tool_calls] == [{"n": 0}, {"n": 1}]


def test_stream_without_an_end_is_truncated() -> None:
    reply = AnthropicResponseBuilder(lambda: 1)
    for payload in (START, *block(0, {"type": "text", "text": "half"})):
        list(reply.add(payload))
    with pytest.raises(Unavailable):
        list(reply.finish(done=False))


def test_unstreamed_reply_is_read() -> None:
    content = [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "x"}]
    usage = {"input_tokens": 2, "output_tokens": 1}
    whole = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": usage}
    reply = read(json.loads(json.dumps(whole)))
    assert reply.message.text == "hi"
    assert [(call.id, call.name, call.arguments) for call in reply.message.tool_calls] == [
        ("t", "x", {})
    ]


def test_calls_with_equal_or_missing_ids_get_new_ids() -> None:
    starts = [{"type": "tool_use", "id": given, "name": "read"} for given in ("t", "t", "", "t")]
    blocks = [event for n, start in enumerate(starts) for event in block(n, start)]
    reply = read(START, *blocks, end("tool_use"), STOP, number=3)
    assert [call.id for call in reply.message.tool_calls] == ["t", "call_3", "call_4", "call_5"]


def test_signature_in_the_form_of_another_format_is_dropped() -> None:
    """A server could otherwise write fields of requests to other servers."""
    forged = {"type": "signature_delta", "signature": '{"unknown_fields": {"server": "x"}}'}
    thought = {"type": "thinking_delta", "thinking": "hm"}
    start = {"type": "thinking", "thinking": ""}
    message = read(
        START, *block(0, start, thought, forged), *block(1, start, forged), end("end_turn"), STOP
    ).message
    assert message.content == (Thinking("hm"),)
