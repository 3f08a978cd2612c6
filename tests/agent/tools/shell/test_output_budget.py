"""Limits on the output of servers."""

import json

import pytest

from agent.code.lsp.protocol.peer import JsonRpcPeer, encode_message
from agent.tools.shell.confined_server import (
    MAX_AT_ONCE_BYTES,
    VALUE_BYTES,
    OutputBudget,
    TooMuchOutput,
)


def test_bytes_are_limited() -> None:
    budget = OutputBudget()
    budget.take(MAX_AT_ONCE_BYTES)
    with pytest.raises(TooMuchOutput):
        budget.take(1_000_000_000)


def test_rejected_output_is_not_charged() -> None:
    budget = OutputBudget()
    with pytest.raises(TooMuchOutput):
        budget.take(1_000_000_000)
    budget.take(MAX_AT_ONCE_BYTES)


@pytest.mark.parametrize("value", [b"[],", b"{},", b"0,", b"[[]],", b'{"a":1},'])
def test_values_count_more_than_their_bytes(value: bytes) -> None:
    message = b"[%b0]" % (value * (MAX_AT_ONCE_BYTES // VALUE_BYTES + 100_000))
    budget = OutputBudget()
    budget.take(len(message))
    with pytest.raises(TooMuchOutput):
        budget.take_values(message)


@pytest.mark.parametrize("text", ["a, b, [c], {d}\n" * 500_000, '\\"' * 2_000_000, "," * 5_000_000])
def test_text_counts_by_its_bytes(text: str) -> None:
    message = json.dumps({"text": text}).encode()
    budget = OutputBudget()
    budget.take(MAX_AT_ONCE_BYTES - len(message))
    budget.take_values(message)


def test_language_server_has_the_same_budget() -> None:
    peer = JsonRpcPeer(lambda *_: None, lambda *_: None)
    message = encode_message({"method": "window/logMessage", "params": [[]] * 1_100_000})
    with pytest.raises(TooMuchOutput, match="endless data"):
        peer.feed(message)
    peer = JsonRpcPeer(lambda *_: None, lambda *_: None)
    message = encode_message({"method": "window/logMessage", "params": "x" * 13_000_000})
    for _ in range(4):
        peer.feed(message)
    with pytest.raises(TooMuchOutput, match="endless data"):
        peer.feed(message)
