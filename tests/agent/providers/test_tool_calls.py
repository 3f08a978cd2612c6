"""Parsing of malformed arguments with only one possible meaning."""

import json

import pytest

from agent.providers.tool_calls import parse_tool_call


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ],\n}', {"a": [1, 2]}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ('{"text": "one\ntwo\tthree"}', {"text": "one\ntwo\tthree"}),
        ('{}{"a": 1}', {"a": 1}),
        ('{"a": 1}{"a": 1}', {"a": 1}),
        ('{"text": "a, } True, ]",}', {"text": "a, } True, ]"}),
    ],
)
def test_unambiguous_arguments_are_repaired(raw: str, arguments: object) -> None:
    call = parse_tool_call("c", "note", raw)
    assert call.arguments == arguments
    assert json.loads(call.raw) == arguments


@pytest.mark.parametrize(
    "raw",
    [
        '{"command": "rm -r build',
        '{"command": "ls"',
        '{"a": 1}{"a": 2}',
        "{'a': 1}",
        '{"a": NaN,}',
        "[1,]",
        '{"a" 1}',
        '{"a": 1} and then',
    ],
)
def test_truncated_or_ambiguous_arguments_are_not_repaired(raw: str) -> None:
    call = parse_tool_call("c", "note", raw)
    assert (call.arguments, call.raw) == (None, raw)
