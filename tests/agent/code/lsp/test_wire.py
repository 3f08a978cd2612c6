"""Framing of language server messages."""

import json
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.code.lsp.protocol.peer import BadMessage, MessageSplitter, encode_message
from agent.tools.shell.confined_server import TooMuchOutput

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), _VALUES), max_size=5),
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
)
def test_messages_survive_any_chunking(messages: list[dict[str, Any]], sizes: list[int]) -> None:
    messages = json.loads(json.dumps(messages))
    rest = b"".join(map(encode_message, messages))
    splitter, received = MessageSplitter(), []
    for size in cycle(sizes):
        received += list(splitter.feed(rest[:size]))
        rest = rest[size:]
        if not rest:
            break
    assert received == messages


def test_lone_surrogate_can_be_sent() -> None:
    assert list(MessageSplitter().feed(encode_message({"text": "\ud83d"}))) == [{"text": "\ud83d"}]


@pytest.mark.parametrize(
    "data",
    [
        b"hello, this is a banner\r\n\r\n",
        b"Content-Length: 3\r\n\r\n{]}",
        b"Content-Length: 2\r\n\r\n[]",
        b"x" * 5_000,
        b"Content-Length: 40000\r\n\r\n" + b"[" * 40_000,
    ],
)
def test_malformed_message_is_rejected(data: bytes) -> None:
    with pytest.raises(BadMessage):
        list(MessageSplitter().feed(data))


def test_too_long_message_is_rejected_by_its_header() -> None:
    with pytest.raises(TooMuchOutput):
        list(MessageSplitter(100).feed(b"Content-Length: 10000000000\r\n\r\n"))
