import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.text import frontmatter
from agent.text.frontmatter import SIZE_LIMIT_BYTES, decode, read


def test_yaml_is_read_with_its_kinds_of_values() -> None:
    found = read('---\na: "x: y"\nb: [1, two]\nc: true\nd:\ne: >\n  folded\n  text\n---\n\nBody\n')
    assert found.fields == {
        "a": "x: y",
        "b": [1, "two"],
        "c": True,
        "d": None,
        "e": "folded text",
    }
    assert found.body == "Body"
    assert found.remarks == ()


def test_an_unquoted_colon_costs_nothing() -> None:
    text = (
        "---\nname: reviewer\ndescription: Use it when: code changed. E.g. <example>a</example>\n"
        "tools: Read, Grep\nmodel: opus\n---\nYou review."
    )
    found = read(text)
    assert found.fields["name"] == "reviewer"
    assert found.fields["description"].endswith("<example>a</example>")
    assert found.fields["tools"] == "Read, Grep"
    assert found.body == "You review."
    assert "not valid YAML" in found.remarks[0]


def test_a_pasted_dialogue_stays_in_the_description() -> None:
    text = "---\nname: a\ndescription: When: asked\nuser: hello\nassistant: hi\nmodel: opus\n---\nx"
    found = read(text).fields
    assert found["description"] == "When: asked\nuser: hello\nassistant: hi"
    assert found["model"] == "opus"


def test_lists_and_blocks_are_understood_line_by_line() -> None:
    text = "---\nbad: a: b\nt:\n  - Read\n  - 'B'\ntext: |\n  one\n  two\nflow: [a, \"b\"]\n---\n"
    found = read(text).fields
    assert found["t"] == ["Read", "B"]
    assert found["text"] == "one\ntwo"
    assert found["flow"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Just a text\n\nand more", "Just a text\n\nand more"),
        ("", ""),
        ("---\n", "---"),
        ("---\nno field here\nat all", "---\nno field here\nat all"),
    ],
)
def test_what_has_no_frontmatter_is_all_body(text: str, body: str) -> None:
    found = read(text)
    assert (found.fields, found.body) == ({}, body)
    assert found.remarks == ("has no frontmatter",)


def test_one_that_is_never_closed_ends_at_the_first_empty_line() -> None:
    found = read("---\nname: a\nmodel: opus\n\nYou do x.\n")
    assert found.fields == {"name": "a", "model": "opus"}
    assert found.body == "You do x."


def test_no_tag_is_ever_carried_out(tmp_path: object) -> None:
    found = read("---\nname: !!python/object/apply:os.system ['touch /tmp/never']\n---\nx")
    assert found.fields["name"] == ["touch /tmp/never"]


def test_aliases_and_deep_nesting_are_read_as_plain_lines() -> None:
    bomb = "---\na: &a [x, x]\nb: &b [*a, *a]\nname: bomb\n---\nx"
    assert read(bomb).fields["name"] == "bomb"
    deep = "---\nname: deep\nx: " + "[" * 500 + "]" * 500 + "\n---\nx"
    assert read(deep).fields["name"] == "deep"
    assert "nested too deeply" in read(deep).remarks[0]


def test_line_ends_marks_and_encodings_of_any_editor_are_read() -> None:
    for raw in (
        b"\xef\xbb\xbf---\r\nname: a\r\n---\r\nx\r\ny",
        "---\nname: a\n---\nx\ny".encode("utf-16"),
        b"---\rname: a\r---\rx\ry",
    ):
        found = read(decode(raw)[0])
        assert found.fields == {"name": "a"}
        assert found.body == "x\ny"


def test_bytes_that_are_no_text_and_too_many_of_them_are_said() -> None:
    assert decode(b"a\xffb") == ("a\ufffdb", ("contains bytes that are not text",))
    text, remarks = decode(b"x" * (SIZE_LIMIT_BYTES + 1))
    assert len(text) == SIZE_LIMIT_BYTES
    assert "only its beginning" in remarks[0]


_NAMES = st.sampled_from(["name", "tools", "model", "x-y", "on"])
_PLAIN_VALUES = st.text("ab Z09_,.;()/'-: #", max_size=12) | st.sampled_from(["true", "null", "No"])


@given(st.lists(st.tuples(_NAMES, _PLAIN_VALUES), min_size=1, max_size=4))
def test_the_short_way_says_what_yaml_says(fields: list[tuple[str, str]]) -> None:
    block = "\n".join(f"{name}: {value}" for name, value in fields)
    simple = frontmatter._simple(block)
    if simple is not None:
        assert simple == frontmatter._yaml(block)


def test_files_as_most_are_written_take_the_short_way() -> None:
    block = "name: explore\ndescription: Find, read; where it is.\ntools: read_file, grep"
    assert frontmatter._simple(block) is not None
    assert frontmatter._simple("name: a\ndescription: what: is this") is None
