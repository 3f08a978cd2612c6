"""Encoding of requests for chat completions."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.base import RENAMED_LIMIT, REPLAYED_THOUGHTS, ModelRequest, ToolSpec
from agent.providers.openai.request import OpenAIRequestEncoder
from agent.providers.vendors import Dialect
from agent.text.visible import replace_lone_surrogates
from agent.types import Message, Text, Thinking, ToolCall, assistant, user

TOOL = ToolSpec("exec", "Run.", {"type": "object"})
CALL = ToolCall("c1", "exec", {"command": "ls"}, '{"command": "ls"}')


def body(request: ModelRequest, dialect: Dialect | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(OpenAIRequestEncoder(dialect or Dialect()).body(request))
    return document


def model_request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest("m", "sys", messages, **fields)


def test_messages_come_last() -> None:
    request = model_request(
        user("hi"), tools=(TOOL,), temperature=0.5, max_tokens=9, options={"seed": 1, "top_p": None}
    )
    assert list(body(request)) == [
        "model",
        "stream",
        "stream_options",
        "temperature",
        "max_tokens",
        "seed",
        "tools",
        "messages",
    ]


def test_context_follows_the_text_after_a_blank_line() -> None:
    assert body(model_request(user("hi", "[noon]")))["messages"][1] == {
        "role": "user",
        "content": "hi\n\n[noon]",
    }


def test_empty_system_prompt_sends_no_message() -> None:
    assert body(ModelRequest("m", "", ()))["messages"] == []
    assert body(ModelRequest("m", "s", ()))["messages"] == [{"role": "system", "content": "s"}]


def test_message_is_encoded_once() -> None:
    encoder, message = OpenAIRequestEncoder(Dialect()), user("hi")
    encoder.body(model_request(message))
    message.wire["openai"] = b'{"role":"user","content":"kept"}'
    assert b"kept" in encoder.body(model_request(message))


def test_dialects_do_not_share_encodings() -> None:
    message = Message("assistant", (Thinking("why"), Text("so")), (CALL,))
    plain = body(model_request(message))["messages"][1]
    replayed = body(model_request(message), Dialect(replay_reasoning=True))["messages"][1]
    assert "reasoning_content" not in plain
    assert replayed["reasoning_content"] == "why"


@pytest.mark.parametrize("calls", [(), (CALL,)])
def test_missing_reasoning_is_replayed_as_a_blank(
    calls: tuple[ToolCall, ...],
) -> None:
    """The server rejects a conversation without the field, for example after a change of model."""
    sent = body(model_request(assistant("so", calls)), Dialect(replay_reasoning=True))["messages"][
        1
    ]
    assert sent["reasoning_content"] == " "


def test_reasoning_is_replayed_if_the_dialect_requires_it() -> None:
    encoder = OpenAIRequestEncoder(Dialect())
    request = model_request(Message("assistant", (Thinking("why"), Text("so"))))
    assert b"reasoning_content" not in encoder.body(request)
    assert REPLAYED_THOUGHTS in encoder.optional_fields(request)
    adapted = replace(request, adaptations=frozenset({REPLAYED_THOUGHTS}))
    assert b'"reasoning_content":"why"' in encoder.body(adapted)
    assert REPLAYED_THOUGHTS not in encoder.optional_fields(adapted)
    assert b"reasoning_content" not in encoder.body(request)


def test_calls_of_another_model_get_a_placeholder_signature() -> None:
    second = replace(CALL, id="c2")
    sent = body(model_request(assistant("", (CALL, second))), Dialect(signs_calls=True))[
        "messages"
    ][1]
    first, other = sent["tool_calls"]
    assert "skip_thought_signature_validator" in str(first["extra_content"])
    assert "extra_content" not in other


def test_changed_prompt_or_tool_changes_the_cached_head() -> None:
    encoder = OpenAIRequestEncoder(Dialect())
    request = model_request(user("hi"), tools=(TOOL,))
    bodies = [
        encoder.body(request),
        encoder.body(replace(request, system="other")),
        encoder.body(replace(request, tools=(replace(TOOL, description="Walk."),))),
        encoder.body(replace(request, temperature=1.0)),
        encoder.body(replace(request, options={"seed": 2})),
    ]
    assert len(set(bodies)) == len(bodies)
    assert encoder.body(request) == bodies[0]


def test_cached_heads_are_limited() -> None:
    encoder = OpenAIRequestEncoder(Dialect())
    for n in range(200):
        encoder.body(ModelRequest("m", f"prompt {n}", (user("hi"),)))
    assert len(encoder._heads) < 100


def test_thinking_uses_the_fields_of_the_vendor() -> None:
    switched = Dialect(thinking={"enable_thinking": True}, no_thinking={"enable_thinking": False})
    for effort, is_on in (("low", True), ("none", False)):
        sent = body(model_request(options={"reasoning_effort": effort}), switched)
        assert (sent["enable_thinking"], "reasoning_effort" in sent) == (is_on, False)
    own = {"thinking": {"type": "disabled"}}
    assert body(model_request(options=own), Dialect())["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("efforts", "effort", "sent"),
    [
        (("low", "medium", "high"), "max", "high"),
        (("low", "medium", "high"), "none", "low"),
        (("none", "low", "high"), "minimal", "low"),
        (("minimal", "low"), "low", "low"),
        ((), "max", "max"),
    ],
)
def test_unsupported_effort_becomes_the_nearest(efforts: Any, effort: str, sent: str) -> None:
    request = model_request(options={"reasoning_effort": effort})
    assert body(request, Dialect(efforts=efforts))["reasoning_effort"] == sent


def test_cache_key_is_sent_to_vendors_that_take_it() -> None:
    request = model_request(cache_key="k1")
    assert body(request, Dialect(takes_cache_key=True))["prompt_cache_key"] == "k1"
    assert "prompt_cache_key" not in body(request, Dialect())


def test_odd_names_and_unreadable_arguments_are_sent_as_valid_json() -> None:
    calls = (ToolCall("a", "functions.exec now", None, '{"x'), ToolCall("b", "", {}, " "))
    sent = body(model_request(assistant("", calls)))["messages"][1]["tool_calls"]
    assert [call["function"]["name"] for call in sent] == ["functions_exec_now", "unnamed"]
    assert json.loads(sent[0]["function"]["arguments"]) == {"unreadable": '{"x'}
    assert sent[1]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("text", ["", " \n"])
def test_reply_without_text_is_sent_with_a_placeholder(text: str) -> None:
    # Anthropic and Moonshot reject every request with an empty message in it.
    thinking = Message("assistant", (Thinking("hm"), Text(text)))
    assert body(model_request(thinking))["messages"][1]["content"].strip()
    assert body(model_request(assistant(text, (CALL,))))["messages"][1]["content"] is None


def test_surrogates_are_joined_or_replaced() -> None:
    assert replace_lone_surrogates("\ud83d\ude00") == "😀"
    assert replace_lone_surrogates("a\ud83db") == "a\ufffdb"
    assert body(model_request(user("\ud83d")))["messages"][1]["content"] == "\ufffd"


ANY_TEXT = st.text(st.characters(), max_size=20)
CALLS = st.builds(ToolCall, st.text(max_size=5), ANY_TEXT, st.none(), ANY_TEXT)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, ANY_TEXT, st.none() | ANY_TEXT),
        st.builds(assistant, ANY_TEXT, st.lists(CALLS, max_size=2).map(tuple)),
        ANY_TEXT.map(lambda text: Message("tool", (Text(text),), tool_call_id="c")),
    ),
    max_size=6,
)


@given(MESSAGES)
def test_any_conversation_is_valid_json_that_only_grows(messages: list[Message]) -> None:
    encoder = OpenAIRequestEncoder(Dialect())
    bodies = [encoder.body(model_request(*messages[:n])) for n in range(len(messages) + 1)]
    for raw in bodies:
        json.loads(raw.decode("utf-8"))
    for before, after in pairwise(bodies):
        assert after.startswith(before.removesuffix(b"]}"))


def test_renamed_token_limit_is_used_after_a_rejection() -> None:
    encoder = OpenAIRequestEncoder(Dialect(max_tokens_name="max_completion_tokens"))
    wanted = model_request(user("hi"), max_tokens=9)
    assert json.loads(encoder.body(wanted))["max_completion_tokens"] == 9
    assert RENAMED_LIMIT in encoder.optional_fields(wanted)
    adapted = replace(wanted, adaptations=frozenset({RENAMED_LIMIT}))
    sent = json.loads(encoder.body(adapted))
    assert sent["max_tokens"] == 9
    assert "max_completion_tokens" not in sent
    assert RENAMED_LIMIT not in encoder.optional_fields(adapted)


@pytest.mark.parametrize(("null", "content"), [(True, None), (False, "")])
def test_content_of_a_reply_with_only_calls_depends_on_the_dialect(
    null: bool, content: str | None
) -> None:
    message = assistant("", (ToolCall("c", "exec", {}, "{}"),))
    sent = body(model_request(message), Dialect(null_content=null))["messages"][-1]
    assert sent["content"] == content
