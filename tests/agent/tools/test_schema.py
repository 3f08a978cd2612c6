"""Validation of a model's arguments against the schema of a tool."""

from typing import Any

import pytest

from agent.errors import ToolError
from agent.tools.call_arguments import canonical
from agent.tools.schema import ArgumentSchema, parameters
from tests.agent.props import answers

SCHEMA = ArgumentSchema(
    "note",
    parameters(
        text="string?",
        n="integer?",
        x="number?",
        on="boolean?",
        items="array?",
        more="object?",
        action="add|list?",
    ),
)


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("n", "2", 2),
        ("n", " -7 ", -7),
        ("n", 2.0, 2),
        ("x", "2.5", 2.5),
        ("on", "True", True),
        ("on", "false", False),
        ("items", '["a", "b"]', ["a", "b"]),
        ("more", '{"a": 1}', {"a": 1}),
        ("text", "2", "2"),
        ("text", ["2"], "2"),
        ("action", " List", "list"),
        ("action", ["add"], "add"),
        ("text", "true", "true"),
    ],
)
def test_string_of_a_value_is_converted(name: str, written: Any, meant: Any) -> None:
    value = SCHEMA.validate({name: written})[name]
    assert (value, type(value)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("n", "two"),
        ("n", "2.5"),
        ("n", 2.5),
        ("n", "true"),
        ("x", "NaN"),
        ("x", "1e400"),
        ("on", "yes"),
        ("on", 1),
        ("items", "a, b"),
        ("items", '{"a": 1}'),
        ("more", "[1]"),
        ("text", 2),
        ("text", ["a", "b"]),
    ],
)
def test_value_of_another_type_is_rejected(name: str, written: Any) -> None:
    with pytest.raises(ToolError, match=f"note: {name} must be of type"):
        SCHEMA.validate({name: written})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["git", "commit", "-m", "It's done"], "git commit -m 'It'\"'\"'s done'"),
        (["bash", "-lc", "ls | wc -l"], "ls | wc -l"),
        (["sh", "-c", "echo $HOME"], "echo $HOME"),
        (["sh", "-c", "echo $0", "x"], "sh -c 'echo $0' x"),
    ],
)
def test_list_of_words_becomes_a_command_line(words: list[str], line: str) -> None:
    tool = answers("exec")
    assert canonical(tool, {"command": words}) == {"command": line}


def test_unknown_word_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ToolError, match="note: action must be one of"):
        SCHEMA.validate({"action": "delete"})
