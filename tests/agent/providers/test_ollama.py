"""Features specific to Ollama: window size, JSON lines, thinking and complete calls."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadReply, Unavailable
from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.providers.http.json_stream import NdjsonParser
from agent.providers.ollama import OllamaRequestEncoder, OllamaResponseBuilder
from agent.types import Image, Message, Text, Thinking, ToolCall, Usage, assistant, user

CALL = ToolCall("c1", "exec", {"command": "ls"}, '{"command":"ls"}')


def body(*messages: Message, model: str = "llama3.2", **fields: Any) -> dict[str, Any]:
    request = ModelRequest(model, "sys", messages, **fields)
    document: dict[str, Any] = json.loads(OllamaRequestEncoder(32_768).body(request))
    return document


def test_context_window_is_sent_as_num_ctx() -> None:
    sent = body(user("hi"), temperature=0.5, max_tokens=9, options={"seed": 1, "keep_alive": "5m"})
    assert sent["options"] == {"num_ctx": 32768, "temperature": 0.5, "num_predict": 9, "seed": 1}
    assert sent["keep_alive"] == "5m"


@pytest.mark.parametrize(
    ("model", "effort", "think"),
    [
        ("qwen3", "low", True),
        ("qwen3", "none", False),
        ("gpt-oss:20b", "max", "high"),
        ("gpt-oss:20b", "none", "low"),
    ],
)
def test_effort_becomes_a_level_or_a_switch(model: str, effort: str, think: object) -> None:
    assert body(user("hi"), model=model, options={"reasoning_effort": effort})["think"] == think
    assert "think" not in body(user("hi"), model=model)


def test_results_name_their_tool_and_thinking_is_replayed() -> None:
    planned = Message("assistant", (Thinking("hm"), Text("Look:")), (CALL,))
    result = Message("tool", (Text("a.txt"),), (), "c1")
    sent = body(user("hi"), planned, result)["messages"][2:]
    function = {"name": "exec", "arguments": {"command": "ls"}}
    assert sent == [
        {
            "role": "assistant",
            "content": "Look:",
            "thinking": "hm",
            "tool_calls": [{"id": "c1", "function": function}],
        },
        {"role": "tool", "content": "a.txt", "tool_call_id": "c1", "tool_name": "exec"},
    ]


def test_images_are_bare_base64() -> None:
    picture = Message("user", (Text("this?"), Image("image/png", b"\x01")))
    assert body(picture)["messages"][1] == {"role": "user", "content": "this?", "images": ["AQ=="]}
    assert body(assistant(" "))["messages"][1]["content"].strip()


def read(*payloads: dict[str, Any]) -> Reply:
    reply = OllamaResponseBuilder(lambda: 3)
    for payload in payloads:
        list(reply.add(payload))
    last = list(reply.finish(done=True))[-1]
    assert isinstance(last, Reply)
    return last


def test_calls_without_ids_get_ids() -> None:
    function = {"name": "exec", "arguments": {"command": "é"}}
    calls = {"message": {"content": "", "tool_calls": [{"function": function}] * 2}}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 4, "eval_count": 2}
    reply = read(calls, end)
    assert [(c.id, c.arguments) for c in reply.message.tool_calls] == [
        ("call_3", {"command": "é"}),
        ("call_4", {"command": "é"}),
    ]
    assert reply.usage == Usage(4, 2)
    assert reply.finish_reason == "tool_calls"


def test_cached_prompt_is_not_counted() -> None:
    end = {"message": {"content": "hi"}, "done": True, "eval_count": 2}
    assert read(end).usage == Usage(0, 2)
    assert read({"message": {"content": "hi"}, "done": True}).usage is None


def test_think_tags_in_the_text_are_thinking() -> None:
    reply = read({"message": {"content": "<think>hm</think>Yes"}}, {"done": True})
    assert reply.message.content == (Thinking("hm"), Text("Yes"))


@pytest.mark.parametrize(
    "last", [{"message": {"content": "x"}}, {"done": True, "done_reason": "load"}]
)
def test_missing_end_or_empty_answer_is_an_error(last: dict[str, Any]) -> None:
    with pytest.raises(Unavailable):
        read(last)


LINES = [{"n": 1, "t": "ünï"}, {"n": 2, "t": "漢字 🙂\u2028"}, {"done": True}]


@given(st.lists(st.integers(0, 100)), st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.booleans())
def test_lines_may_arrive_in_any_chunks(cuts: list[int], end: bytes, ended: bool) -> None:
    data = end.join(json.dumps(line, ensure_ascii=False).encode() for line in LINES) + end * ended
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = NdjsonParser()
    items = [item for a, b in pairwise(places) for item in reader.feed(data[a:b])]
    assert items + reader.close() == LINES
    assert reader.done


@pytest.mark.parametrize("line", [b"<html>\n", b"[1]\n", b'{"a":\n', b"[" * 100_000 + b"\n"])
def test_line_that_is_not_a_json_object_is_rejected(line: bytes) -> None:
    with pytest.raises(BadReply):
        NdjsonParser().feed(line)


def test_endless_line_is_a_bad_reply() -> None:
    reader = NdjsonParser()
    for _ in range(16):
        reader.feed(b"x" * (1 << 20))
    with pytest.raises(BadReply):
        reader.feed(b"x")
