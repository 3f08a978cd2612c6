import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.json_files.jsonc import read, remove_value, set_value

COMMENTED = """\
{
    // the models, as the team agreed
    "modelPointers": {"main": "gpt-5", "task": "gpt-5"},
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files"]}, /* local */
    },
    "projects": {"/home/x": {"allowedTools": ["Bash"]}}, // kept
}
"""


def test_only_the_value_changes() -> None:
    changed = set_value(COMMENTED, ("modelPointers", "main"), "claude")
    assert changed == COMMENTED.replace('"main": "gpt-5"', '"main": "claude"')


def test_new_key_follows_the_last_with_its_comment_and_comma() -> None:
    changed = set_value(COMMENTED, ("proxy",), "http://p")
    assert changed == COMMENTED.replace("// kept\n", '// kept\n    "proxy": "http://p",\n')
    changed = set_value(COMMENTED, ("modelPointers", "quick"), "mini")
    assert changed == COMMENTED.replace('"task": "gpt-5"}', '"task": "gpt-5", "quick": "mini"}')


def test_nested_key_creates_its_parent_objects() -> None:
    text = '{\n  "agent": {}\n}\n'
    assert set_value(text, ("agent", "model"), "a/b") == (
        '{\n  "agent": {\n    "model": "a/b"\n  }\n}\n'
    )
    assert json.loads(set_value("{}", ("a", "b", "c"), 1)) == {"a": {"b": {"c": 1}}}


def test_comma_precedes_a_comment_on_the_same_line() -> None:
    text = '{\n  "a": 1 // one\n}\n'
    assert set_value(text, ("b",), 2) == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_line_endings_and_byte_order_mark_are_kept() -> None:
    text = '\ufeff{\r\n\t"a": 1\r\n}\r\n'
    assert set_value(text, ("b",), 2) == '\ufeff{\r\n\t"a": 1,\r\n\t"b": 2\r\n}\r\n'


def test_removal_deletes_the_line_but_no_other_comment() -> None:
    changed = remove_value(COMMENTED, ("mcpServers", "files"))
    assert read(changed).value["mcpServers"] == {}
    assert "// the models" in changed
    changed = remove_value(COMMENTED, ("projects",))
    assert "// kept" not in changed
    assert "projects" not in read(changed).value
    assert remove_value('{"a": 1, "b": 2}', ("b",)) == '{"a": 1}'
    assert remove_value('{"a": 1, "b": 2}', ("a",)) == '{"b": 2}'
    assert remove_value('{\n  "a": 1,\n  "b": 2\n}', ("b",)) == '{\n  "a": 1\n}'
    with pytest.raises(KeyError):
        remove_value("{}", ("a",))


def test_list_items_are_addressed_by_number() -> None:
    text = '{"model_list": [{"model": "a/b"}, {"model": "c/d"}]}'
    assert set_value(text, ("model_list", "1", "model"), "e/f") == text.replace("c/d", "e/f")
    assert json.loads(set_value(text, ("model_list", "2"), {"model": "g/h"}))["model_list"][2]
    with pytest.raises(ValueError, match="has no place for '7'"):
        set_value(text, ("model_list", "7"), {})


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"}', '{"a": 1 "b": 2}', '{"a": 1,, }', "{a: 1}", '{"a": 1} x', "[NaN]"]
)
def test_json_error_names_its_position(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1, column \d+"):
        read(text)


_KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=5), _KEYS, _VALUES, st.sampled_from([None, 1, 4]))
def test_set_and_remove_change_only_their_key(
    before: dict[str, Any], key: str, value: Any, indent: int | None
) -> None:
    text = json.dumps(before, indent=indent)
    changed = set_value(text, (key,), value)
    assert json.loads(changed) == {**before, key: value}
    assert list(json.loads(changed)) == list({**before, key: value})
    without = {k: v for k, v in before.items() if k != key}
    assert json.loads(remove_value(changed, (key,))) == without
