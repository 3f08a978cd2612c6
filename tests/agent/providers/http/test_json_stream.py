"""Parsing of server-sent events, split at any position."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadReply
from agent.providers.http.json_stream import SseParser


def read(*portions: bytes, **limits: int) -> list[dict[str, Any]]:
    reader = SseParser(**limits)
    items = [item for portion in portions for item in reader.feed(portion)]
    return items + ([] if reader.done else reader.close())


OBJECTS = st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), max_size=6)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """Return a stream in one of the allowed styles, and its objects."""
    objects = draw(OBJECTS)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    between = draw(st.sampled_from([end, ""]))
    colon = draw(st.sampled_from(["data: ", "data:"]))
    noise = draw(st.sampled_from(["", f": alive{end}", f"event: x{end}id: 1{end}", end]))
    ascii_only = draw(st.booleans())
    lines = [colon + json.dumps(item, ensure_ascii=ascii_only) + end + between for item in objects]
    done = draw(st.sampled_from([f"data: [DONE]{end}{end}", ""]))
    return noise.encode() + noise.encode().join(map(str.encode, [*lines, done])), objects


@given(streams(), st.data())
def test_any_chunking_gives_the_same_objects(
    stream: tuple[bytes, list[dict[str, Any]]], data: st.DataObject
) -> None:
    raw, objects = stream
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    portions = [raw[start:end] for start, end in pairwise([0, *cuts, len(raw)])]
    assert read(*portions) == objects


@given(OBJECTS.filter(bool))
def test_byte_by_byte_gives_the_same_objects(objects: list[dict[str, Any]]) -> None:
    raw = "".join(f"data: {json.dumps(item, ensure_ascii=False)}\n\n" for item in objects).encode()
    assert read(*(raw[n : n + 1] for n in range(len(raw)))) == objects


def test_object_on_several_data_lines_is_joined() -> None:
    assert read(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]


def test_object_on_very_many_lines_is_read_in_linear_time() -> None:
    # Parsing again at every line would take minutes and exceed the suite's time limit.
    lines = b"data: 1,\n" * 300_000
    (result,) = read(b'data: {"a": [\n' + lines + b"data: 1]}\n\n")
    assert len(result["a"]) == 300_001


def test_empty_data_line_does_not_join_the_next_event() -> None:
    assert read(b'data:\ndata: {"a": 1}\ndata: {"b": 2}\n') == [{"a": 1}, {"b": 2}]


def test_events_without_blank_lines_are_emitted_at_once() -> None:
    assert SseParser().feed(b'data: {"a": 1}\n') == [{"a": 1}]


def test_last_line_without_a_newline_is_read() -> None:
    assert read(b'data: {"a": 1}') == [{"a": 1}]


def test_data_after_done_is_ignored() -> None:
    reader = SseParser()
    assert reader.feed(b'data: {"a": 1}\n\ndata: [DONE]\n\ndata: {"b": 2}\n\n') == [{"a": 1}]
    assert reader.done


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_plain_document_is_one_object(size: int) -> None:
    raw = b'\xef\xbb\xbf\r\n {\n  "a": [1,\n\n 2]\n}\n'
    assert read(*(raw[n : n + size] for n in range(0, len(raw), size))) == [{"a": [1, 2]}]


def test_bare_json_line_in_a_stream_is_read() -> None:
    assert read(b'data: {"a": 1}\n\n{"error": "x"}\n') == [{"a": 1}, {"error": "x"}]


def test_invalid_utf8_does_not_stop_the_stream() -> None:
    assert read(b'data: {"a": "\xff"}\n\n') == [{"a": "\ufffd"}]


@pytest.mark.parametrize(
    "raw", [b"data: nonsense\n\n", b"data: 1\n\n", b'{"a": ', b"data: " + b"[" * 200_000 + b"\n\n"]
)
def test_reply_that_is_not_a_json_object_is_rejected(raw: bytes) -> None:
    with pytest.raises(BadReply):
        read(raw)


def test_empty_stream_has_no_objects() -> None:
    assert read(b"\n\n", b"") == []


@pytest.mark.parametrize("start", [b"data: ", b"{"])
def test_endless_line_is_a_bad_reply(start: bytes) -> None:
    portions = [start, *[b"x" * 100] * 9]
    assert SseParser(line_limit_bytes=1000).feed(b"".join(portions)) == []
    with pytest.raises(BadReply, match="line"):
        read(*portions, b"x" * 100, line_limit_bytes=1000)


def test_endless_stream_is_a_bad_reply_without_a_retry() -> None:
    with pytest.raises(BadReply, match="1000 bytes") as caught:
        read(*[b": alive\n"] * 200, limit_bytes=1000)
    assert not caught.value.retryable
