"""Assembly of replies from unusual chunks."""

import json
from typing import Any

import pytest

from agent.errors import BadReply, Unavailable
from agent.events import Reply, TextDelta
from agent.providers.openai.response import OpenAIResponseBuilder
from agent.providers.tool_calls import next_call_number, parse_tool_call
from agent.serialization import message_from_json, message_to_json
from agent.types import Message, Text, Thinking, ToolCall, Usage, assistant, user

LAST = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def call(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return delta(tool_calls=[{**fields, "function": function}])


def build(*chunks: dict[str, Any], done: bool = True) -> Reply:
    builder = OpenAIResponseBuilder(lambda: 7)
    for chunk in chunks:
        list(builder.add(chunk))
    reply = list(builder.finish(done=done))[-1]
    assert isinstance(reply, Reply)
    return reply


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c.id, c.name, c.raw) for c in build(*chunks, LAST).message.tool_calls]


def test_calls_with_equal_index_are_distinguished_by_id() -> None:
    assert calls(
        call(index=0, id="a", name="read", arguments='{"p":1}'),
        call(index=0, id="b", name="read", arguments='{"p":2}'),
    ) == [("a", "read", '{"p":1}'), ("b", "read", '{"p":2}')]


def test_new_id_in_the_middle_of_a_call_does_not_split_it() -> None:
    assert calls(
        call(index=0, id="a", name="read", arguments='{"p"'),
        call(index=0, id="b", arguments=":1}"),
    ) == [("a", "read", '{"p":1}')]


def test_arguments_with_an_index_of_their_own_belong_to_the_call_before() -> None:
    assert calls(
        call(index=0, id="a", name="read", arguments=""),
        call(index=1, arguments='{"p"'),
        call(index=1, arguments=":1}"),
        call(index=2, id="b", name="list", arguments=""),
        call(index=3, arguments="{}"),
    ) == [("a", "read", '{"p":1}'), ("b", "list", "{}")]


def test_repeated_name_is_not_doubled_and_split_name_is_joined() -> None:
    assert calls(
        call(index=0, id="a", name="read", arguments=""),
        call(index=0, id="a", name="read", arguments="{}"),
        call(index=1, id="b", name="read_", arguments=""),
        call(index=1, name="file"),
        call(index=1, arguments="{}"),
    ) == [("a", "read", "{}"), ("b", "read_file", "{}")]


def test_empty_repetition_after_a_complete_call_is_ignored() -> None:
    assert calls(
        call(index=0, id="a", name="read", arguments="{}"),
        call(index=0, id="a", name="read", arguments=""),
    ) == [("a", "read", "{}")]


def test_missing_or_duplicate_ids_are_generated() -> None:
    assert calls(
        call(index=0, name="x", arguments="{}"),
        call(index=1, id="same", name="y", arguments="{}"),
        call(index=2, id="same", name="z", arguments="{}"),
    ) == [("call_7", "x", "{}"), ("same", "y", "{}"), ("call_8", "z", "{}")]


def test_legacy_function_call_is_read() -> None:
    chunk = delta(function_call={"name": "read", "arguments": "{}"})
    assert calls(chunk) == [("call_7", "read", "{}")]


def test_content_parts_are_text_and_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
        {"type": "image_url"},
        7,
    ]
    message = build(delta(content=parts), LAST).message
    assert message.content == (Thinking("hm"), Text("yes"))


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_both_spellings_of_reasoning_are_thinking(field: str) -> None:
    assert build(delta(**{field: "hm"}), LAST).message.content == (Thinking("hm"),)


def test_emoji_split_over_deltas_stays_whole() -> None:
    builder = OpenAIResponseBuilder(lambda: 1)
    events = [e for half in ("a\ud83d", "\ude00b") for e in builder.add(delta(content=half))]
    assert events == [TextDelta("a"), TextDelta("😀b")]


@pytest.mark.parametrize(
    "chunk",
    [
        {"usage": {"prompt_tokens": 5, "completion_tokens": 1}, "choices": []},
        {"choices": [{"delta": {}, "usage": {"prompt_tokens": 5, "completion_tokens": 1}}]},
        {"x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}},
    ],
)
def test_usage_is_read_from_every_known_place(chunk: dict[str, Any]) -> None:
    assert build(delta(content="x"), LAST, chunk).usage == Usage(5, 1)


def test_stream_without_an_end_is_an_error() -> None:
    with pytest.raises(Unavailable):
        build(delta(content="half"), done=False)
    with pytest.raises(Unavailable):
        build({"choices": [{"delta": {}, "finish_reason": "error"}]})
    with pytest.raises(BadReply):
        build(done=True)


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": "x"},
        {"choices": [None]},
        {"choices": [{"delta": 5}]},
        delta(content=5, tool_calls={"a": 1}),
        delta(tool_calls=[None, {"function": None}, {"index": "x", "id": 5}]),
    ],
)
def test_fields_of_wrong_types_are_ignored(chunk: dict[str, Any]) -> None:
    assert build(chunk, delta(content="fine"), LAST).message.text == "fine"


def test_call_cut_at_the_token_limit_has_no_arguments() -> None:
    length = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    for raw in ("", '{"a": 1'):
        message = build(call(index=0, id="a", name="exec", arguments=raw), length).message
        assert message.tool_calls[0].arguments is None


def test_lone_surrogates_in_arguments_are_replaced() -> None:
    result = parse_tool_call("a", "write", '{"text": "\\ud83d\\ude00 \\ud83d"}')
    assert result.arguments == {"text": "😀 \ufffd"}
    result.raw.encode()


def test_generated_ids_continue_from_the_conversation() -> None:
    earlier = (ToolCall("call_12", "x", {}, "{}"), ToolCall("toolu_99", "x", {}, "{}"))
    assert next_call_number([user("a"), assistant("", earlier)]) == 13
    assert next_call_number([Message("user")]) == 1


@pytest.mark.parametrize("levels", [100, 400, 900])
def test_too_deeply_nested_arguments_are_unreadable_but_storable(levels: int) -> None:
    raw = '{"a":' + "[" * levels + "]" * levels + "}"
    result = parse_tool_call("c", "exec", raw)
    assert result.arguments is None
    assert message_from_json(message_to_json(assistant("", (result,)))) == assistant("", (result,))


def test_ordinary_nesting_is_read() -> None:
    raw = '{"a":' + "[" * 20 + "]" * 20 + "}"
    assert parse_tool_call("c", "exec", raw).arguments == json.loads(raw)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '"9"', "null", "{}"])
def test_usage_that_is_not_a_number_is_zero(number: str) -> None:
    chunk = json.loads(f'{{"usage": {{"prompt_tokens": {number}, "completion_tokens": 2}}}}')
    assert build(chunk, LAST).usage == Usage(0, 2)


def test_lone_surrogate_in_a_name_or_id_is_replaced() -> None:
    assert calls(call(index=0, id="a\ud83d", name="re\ud83d", arguments="{}")) == [
        ("a\ufffd", "re\ufffd", "{}")
    ]


@pytest.mark.parametrize(
    "reason", ["content_filter", "content_filter: SAFETY", "sensitive", "SAFETY", "refusal"]
)
def test_filtered_replies_have_the_same_stop_reason_for_all_vendors(reason: str) -> None:
    last = {"choices": [{"delta": {}, "finish_reason": reason}]}
    assert build(delta(content="It"), last).finish_reason == "content_filter"


def test_refusal_field_is_not_a_complete_answer() -> None:
    reply = build(delta(refusal="I can't "), delta(refusal="help."), LAST)
    assert (reply.message.text, reply.finish_reason) == ("I can't help.", "content_filter")
