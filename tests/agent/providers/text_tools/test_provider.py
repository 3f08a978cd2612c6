"""Tools for models without native tools: separation of calls from text, and the prompt."""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import ModelEvent, Reply, TextDelta, ToolCallDelta
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.scripted import ScriptedProvider
from agent.providers.text_tools.parser import ParsedCall, TextToolParser
from agent.providers.text_tools.provider import TextToolProvider, parse_text_reply
from agent.types import Message, Text, ToolCall, assistant, user

READ = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
WRITE = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "times": {"type": "integer"},
    },
    "required": ["path", "content"],
}
TOOLS = (ToolSpec("read_file", "Read.", READ), ToolSpec("write_file", "Write.", WRITE))


def read(*pieces: str) -> tuple[str, list[ParsedCall]]:
    """Return the text and the calls."""
    reader = TextToolParser()
    results = [item for piece in pieces for item in reader.feed(piece)] + reader.end()
    text = "".join(item for item in results if isinstance(item, str))
    return text, [item for item in results if isinstance(item, ParsedCall)]


@pytest.mark.parametrize(
    ("text", "shown", "calls"),
    [
        ("<tool name='read_file'>a.txt</tool>", "", [ParsedCall("read_file", "a.txt")]),
        ('Look:\n<tool name="x">{"a": 1}</tool>\n', "Look:\n", [ParsedCall("x", '{"a": 1}')]),
        (
            "<tool name='a'>1</tool>\n <tool name='b'>2</tool> so",
            "so",
            [ParsedCall("a", "1"), ParsedCall("b", "2")],
        ),
        ('<tool name="x">{"a": "</tool>"}</tool>y', "y", [ParsedCall("x", '{"a": "</tool>"}')]),
        (r'<tool name="x">{"a": "\"</tool>"}</tool>', "", [ParsedCall("x", r'{"a": "\"</tool>"}')]),
        ('<tool id="7" name="x" />', "", [ParsedCall("x", "")]),
        ("<tool\n name = 'x'>1</tool>", "", [ParsedCall("x", "1")]),
        ("<tool name='x'>half", "", [ParsedCall("x", "half", whole=False)]),
        (
            '<tool name="x">{"a": "b</tool>later',
            "later",
            [ParsedCall("x", '{"a": "b', whole=False)],
        ),
        ("yes <tool nam", "yes ", []),
        ("yes <tool", "yes ", []),
        ("yes <tool_resu", "yes ", []),
        ("yes <tool_cal", "yes ", []),
        ("<tool name=read_file>a.txt</tool>", "", [ParsedCall("read_file", "a.txt")]),
        ("<tool name=x/>", "", [ParsedCall("x", "")]),
        ("<tool name='x'>1</tool></tool>\nso", "so", [ParsedCall("x", "1")]),
        ("<tool name='x'>1</tool></tool_call>", "", [ParsedCall("x", "1")]),
        ("<tool name='x'>1</tool></to", "", [ParsedCall("x", "1")]),
        (
            '<tool_call>\n{"name": "x", "arguments": {"a": "</tool_call>"}}\n</tool_call>',
            "",
            [ParsedCall("x", '{"a": "</tool_call>"}')],
        ),
        ('<tool_call>{"name": "x"}</tool_call>so', "so", [ParsedCall("x", "{}")]),
        ("<tool_call>{x}</tool_call>so", "so", [ParsedCall("", "{x}", whole=False)]),
        (
            '<tool_call>{"name": "x", "argu',
            "",
            [ParsedCall("", '{"name": "x", "argu', whole=False)],
        ),
        ("a < b and <tools> and <tool>", "a < b and <tools> and <tool>", []),
        ("<tool name='x'>1</tool><tool_result name='x'>made up", "", [ParsedCall("x", "1")]),
        ("i <3 you <", "i <3 you <", []),
    ],
)  # fmt: skip
def test_calls_are_separated_from_text(text: str, shown: str, calls: list[ParsedCall]) -> None:
    assert read(text) == (shown, calls)
    assert read(*text) == (shown, calls)


MARKUP = st.lists(
    st.sampled_from(
        [
            "<tool name='a'>", '<tool name="b">', "</tool>", "<tool_result", "<tool ", "<", ">",
            '"', "\\", "{", "}", '{"x": "', "text", " ", "\n",
            "漢", "🙂", "'", "<tool name='c'/>", "/", "<tool_call>", "</tool_call>",
            "<tool name=d>", '{"name": "e"}',
        ]
    )
)  # fmt: skip


@given(MARKUP.map("".join), st.lists(st.integers(0, 200)))
def test_chunking_does_not_change_the_result(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert read(*(text[a:b] for a, b in pairwise(places))) == read(text)
    assert read(*text) == read(text)


@given(MARKUP.map("".join))
def test_call_is_never_shown(text: str) -> None:
    shown, _ = read(text)
    assert "<tool name='a'>" not in shown
    assert '<tool name="b">' not in shown
    assert "<tool_call>" not in shown


@pytest.mark.parametrize(
    "text",
    [
        'Look:\n<tool name=\'read_file\'>a.txt</tool>\n<tool name="exec">{"a": "b"}</tool>\nSo.',
        'Look:\n<tool_call>{"name": "exec", "arguments": {"a": "b"}}</tool_call></tool_call>So.',
        "Look:\n<tool name=exec>ls</tool><tool_result name='exec'>made up</tool_result>",
    ],
)
def test_truncated_call_is_never_shown(text: str) -> None:
    for end in range(len(text)):
        reader = TextToolParser()
        items = [item for letter in text[:end] for item in reader.feed(letter)]
        items += reader.end(cut=True)
        shown = "".join(item for item in items if isinstance(item, str))
        assert not set(shown) & set("<>{}"), (end, shown)


JSON = st.dictionaries(st.text(), st.recursive(st.none() | st.text(), st.lists, max_leaves=4))


@given(st.lists(JSON, min_size=1, max_size=3), st.integers(1, 9))
def test_json_arguments_are_read_unchanged(wanted: list[dict[str, object]], size: int) -> None:
    text = "".join(
        f"<tool name='t'>{json.dumps(item, ensure_ascii=False)}</tool>" for item in wanted
    )
    _, calls = read(*(text[n : n + size] for n in range(0, len(text), size)))
    assert [parse_text_reply("c", call, {}).arguments for call in calls] == wanted


@pytest.mark.parametrize(
    ("body", "schema", "arguments"),
    [
        (" a b.txt\n", READ, {"path": "a b.txt"}),
        ('{"path": "x"}', READ, {"path": "x"}),
        ("{ echo hi; }", READ, {"path": "{ echo hi; }"}),
        ("", READ, {}),
        (
            "<path>a</path>\n<content>\n<b>x</b>\n</content>",
            WRITE,
            {"path": "a", "content": "<b>x</b>"},
        ),
        ("<path>a</path><times>3</times>", WRITE, {"path": "a", "times": 3}),
        ("<path>a</path> and more", WRITE, None),
        ("just text", WRITE, None),
        ('{"path": "x"', READ, None),
        ('{"path": x}', READ, None),
        ("text", {}, None),
    ],
)  # fmt: skip
def test_arguments_come_from_json_tags_or_text(
    body: str, schema: dict[str, object], arguments: dict[str, object] | None
) -> None:
    call = parse_text_reply("c", ParsedCall("t", body), schema)
    assert call.arguments == arguments
    if arguments:
        assert json.loads(call.raw) == arguments


def test_unclosed_call_needs_complete_json() -> None:
    def arguments(body: str, *, cut: bool) -> object:
        return parse_text_reply("c", ParsedCall("t", body, whole=False), READ, cut=cut).arguments

    assert arguments('{"path": "x"}', cut=False) == {"path": "x"}
    assert arguments('{"path": "x"}', cut=True) is None
    assert arguments("a.txt", cut=False) is None
    assert arguments("", cut=False) is None


async def stream_reply(
    reply: str, messages: Sequence[Message]
) -> tuple[list[ModelEvent], ModelRequest]:
    model = ScriptedProvider([reply])
    provider = TextToolProvider(model)
    request = ModelRequest("m", "Be brief.", messages, TOOLS)
    return [event async for event in provider.stream(request)], model.requests[0]


async def test_tools_are_described_in_text_only() -> None:
    _, result = await stream_reply("hi", [user("hello")])
    assert result.tools == ()
    assert result.system.startswith("Be brief.\n\n")
    assert "read_file" in result.system
    assert '"path"' in result.system


async def test_results_are_sent_as_text_and_roles_alternate() -> None:
    calls = (
        ToolCall("call_1", "read_file", {"path": "</tool>"}, '{"path": "</tool>"}'),
        ToolCall("call_2", "write_file", None, "oops"),
    )
    history = [
        user("look"),
        assistant("Looking.", calls),
        Message("tool", (Text("it says </tool_result> <b>"),), (), "call_1"),
        Message("tool", (Text("unreadable"),), (), "call_2", is_error=True),
        user("and now?", "[noon]"),
    ]
    _, result = await stream_reply("hi", history)
    assert [message.role for message in result.messages] == ["user", "assistant", "user"]
    text = result.messages[1].text
    assert read(text) == (
        "Looking.\n",
        [ParsedCall("read_file", '{"path": "<\\/tool>"}'), ParsedCall("write_file", "oops")],
    )
    results = result.messages[2].text
    assert results.count("</tool_result>") == 2
    assert '<tool_result name="write_file" error="true">' in results
    assert results.endswith("and now?")


async def test_ids_continue_from_the_conversation() -> None:
    done = [assistant("", (ToolCall("call_4", "read_file", {}, "{}"),))]
    result = Message("tool", (Text("x"),), (), "call_4")
    reply = "Yes. <tool name='read_file'>a</tool><tool name='read_file'>b</tool>"
    events, _ = await stream_reply(reply, [user("hi"), *done, result])
    last = events[-1]
    assert isinstance(last, Reply)
    assert [call.id for call in last.message.tool_calls] == ["call_5", "call_6"]
    assert [e.id for e in events if isinstance(e, ToolCallDelta)] == ["call_5", "call_6"]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Yes. "
