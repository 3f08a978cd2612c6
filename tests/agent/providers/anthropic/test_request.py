"""Features specific to Anthropic's format: cache markers, thinking and versions."""

import json
from typing import Any

import pytest

from agent.events import Reply
from agent.providers.anthropic.provider import AnthropicProvider, anthropic_endpoint
from agent.providers.anthropic.request import (
    OLD_VERSION,
    VERSION,
    AnthropicRequestEncoder,
    is_adaptive,
)
from agent.providers.base import ModelRequest, ToolSpec
from agent.types import (
    Image,
    Message,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant,
    user,
)
from tests.fakes.anthropic_wire import REDACTED, SIGNATURE
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

TOOL = ToolSpec("exec", "Run.", {"type": "object"})
CALLS = tuple(ToolCall(item, "exec", {"command": item}, f'{{"command":"{item}"}}') for item in "ab")
RESULTS = tuple(Message("tool", (Text(item),), (), item) for item in "ab")
MARK = {"type": "ephemeral"}


def body(*messages: Message, version: str = VERSION, **fields: Any) -> dict[str, Any]:
    request = ModelRequest(fields.pop("model", "claude-opus-5"), "sys", messages, **fields)
    document: dict[str, Any] = json.loads(AnthropicRequestEncoder(version).body(request))
    return document


def test_results_and_the_next_message_form_one_user_message() -> None:
    sent = body(user("hi"), assistant("ok", CALLS), *RESULTS, user("and?", "[noon]"))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [block.get("tool_use_id") for block in sent[2]["content"]] == ["a", "b", None]
    assert sent[2]["content"][2]["text"] == "and?\n\n[noon]"


def test_cache_marks_follow_the_prompt_and_the_last_two_user_messages() -> None:
    sent = body(user("1"), assistant("x"), user("2"), assistant("", CALLS), *RESULTS, tools=(TOOL,))
    assert sent["system"][-1]["cache_control"] == MARK
    marked = [
        (n, place)
        for n, message in enumerate(sent["messages"])
        for place, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(2, 0), (4, 1)]


def test_only_the_last_messages_have_cache_marks() -> None:
    messages = [user("1"), assistant("x"), user("2"), assistant("y"), user("3")]
    body(*messages[:3])
    sent = body(*messages)["messages"]
    assert "cache_control" not in sent[0]["content"][0]
    assert json.dumps(sent).count("cache_control") == 2


def test_thinking_is_replayed_only_to_its_vendor() -> None:
    parts = (
        Thinking("hm", SIGNATURE),
        RedactedThinking(REDACTED),
        Thinking("unsigned"),
        Thinking("", '{"unknown_fields": {}}'),
        Text("so"),
    )
    sent = body(user("hi"), Message("assistant", parts, CALLS[:1]), RESULTS[0])
    assert sent["messages"][1]["content"][:-1] == [
        {"type": "thinking", "thinking": "hm", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": REDACTED},
        {"type": "text", "text": "so"},
    ]


@pytest.mark.parametrize(
    ("model", "adaptive"),
    [
        ("claude-opus-4-6", True),
        ("claude-sonnet-4.6", True),
        ("claude-haiku-5-5", True),
        ("claude-sonnet-5", True),
        ("anthropic/claude-opus-4-8-20260301", True),
        ("claude-haiku-4-5-20251001", False),
        ("claude-haiku-4-5", False),
        ("claude-3-7-sonnet-20250219", False),
        ("claude-opus-4-20250514", False),
        ("kimi-k2", False),
    ],
)
def test_newer_models_think_adaptively(model: str, adaptive: bool) -> None:
    assert is_adaptive(model) == adaptive
    thinking = body(user("hi"), model=model, options={"reasoning_effort": "high"})["thinking"]
    assert thinking["type"] == ("adaptive" if adaptive else "enabled")


def test_thinking_leaves_room_for_the_answer() -> None:
    result = {"model": "claude-haiku-4-5", "options": {"reasoning_effort": "high"}}
    sent = body(user("hi"), max_tokens=4000, **result)
    assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"] == 4000
    assert "thinking" not in body(user("hi"), max_tokens=500, **result)


def test_thinking_can_be_disabled_or_left_to_the_model() -> None:
    assert body(user("hi"), options={"reasoning_effort": "none"})["thinking"] == {
        "type": "disabled"
    }
    assert "thinking" not in body(user("hi"))


def test_temperature_is_sent_only_if_supported_without_thinking() -> None:
    assert "temperature" not in body(user("hi"), temperature=0.5)
    assert body(user("hi"), temperature=0.5, version=OLD_VERSION)["temperature"] == 0.5
    thinking = {"options": {"reasoning_effort": "high"}, "version": OLD_VERSION}
    assert "temperature" not in body(user("hi"), temperature=0.5, **thinking)


def test_image_block_precedes_the_text() -> None:
    picture = Message("user", (Text("this?"), Image("image/png", b"\x01")))
    source = {"type": "base64", "media_type": "image/png", "data": "AQ=="}
    assert body(picture)["messages"][0]["content"] == [
        {"type": "image", "source": source},
        {"type": "text", "text": "this?", "cache_control": MARK},
    ]


@pytest.mark.parametrize(
    ("api_base", "own", "version"),
    [
        ("https://api.anthropic.com/v1", {}, VERSION),
        ("https://api.deepseek.com/anthropic/v1", {}, OLD_VERSION),
        ("https://api.anthropic.com.example/v1", {}, OLD_VERSION),
        ("https://api.anthropic.com/v1", {"Anthropic-Version": "2023-01-01"}, "2023-01-01"),
    ],
)
def test_other_vendors_get_the_common_api_version(
    api_base: str, own: dict[str, str], version: str
) -> None:
    endpoint = anthropic_endpoint("anthropic", api_base, "k", None, own)
    assert endpoint.headers["anthropic-version"] == version
    assert endpoint.headers["x-api-key"] == "k"
    assert "Authorization" not in endpoint.headers


async def test_thinking_and_calls_are_replayed_unchanged(
    model_server: ModelServer,
) -> None:
    """The fake server rejects a signature or redacted thought that it did not send."""
    provider = AnthropicProvider(anthropic_endpoint("anthropic", model_server.base_url, "k"))
    calls = (Call("exec", {"command": "ls"}, "t1"), Call("exec", {}, "t2"))
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 20},
    }
    model_server.script(
        ReplyScript(reasoning="hm, so", text="Look:", tool_calls=calls, usage=usage)
    )
    request = ModelRequest("claude-opus-5", "sys", (user("hi"),), (TOOL,))
    reply = [event async for event in provider.stream(request)][-1]
    assert isinstance(reply, Reply)
    assert reply.message.content == (
        Thinking("hm, so", SIGNATURE),
        RedactedThinking(REDACTED),
        Text("Look:"),
    )
    assert reply.usage == Usage(30, 5, 20)
    results = [Message("tool", (Text("x"),), (), call.id) for call in calls]
    history = (user("hi"), reply.message, *results)
    again = ModelRequest("claude-opus-5", "sys", history, (TOOL,))
    events = [event async for event in provider.stream(again)]
    await provider.aclose()
    assert isinstance(events[-1], Reply)
    sent = model_server.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in sent] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]


@pytest.mark.parametrize(("most", "asked"), [(None, 16_000), (32_000, 32_000), (128_000, 64_000)])
def test_reply_limit_is_the_limit_of_the_model_up_to_a_maximum(
    most: int | None, asked: int
) -> None:
    body = AnthropicRequestEncoder(VERSION, most).body(ModelRequest("m", "", (user("hi"),)))
    assert json.loads(body)["max_tokens"] == asked
