import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.text import frontmatter
from agent.text.frontmatter import SIZE_LIMIT_BYTES, decode, read


def test_yaml_values_keep_their_types() -> None:
    document = read(
        '---\na: "x: y"\nb: [1, two]\nc: true\nd:\ne: >\n  folded\n  text\n---\n\nBody\n'
    )
    assert document.fields == {
        "a": "x: y",
        "b": [1, "two"],
        "c": True,
        "d": None,
        "e": "folded text",
    }
    assert document.body == "Body"
    assert document.remarks == ()


def test_unquoted_colon_loses_no_field() -> None:
    text = (
        "---\nname: reviewer\ndescription: Use it when: code changed. E.g. <example>a</example>\n"
        "tools: Read, Grep\nmodel: opus\n---\nYou review."
    )
    document = read(text)
    assert document.fields["name"] == "reviewer"
    assert document.fields["description"].endswith("<example>a</example>")
    assert document.fields["tools"] == "Read, Grep"
    assert document.body == "You review."
    assert "not valid YAML" in document.remarks[0]


def test_pasted_dialogue_stays_in_the_description() -> None:
    text = "---\nname: a\ndescription: When: asked\nuser: hello\nassistant: hi\nmodel: opus\n---\nx"
    document = read(text).fields
    assert document["description"] == "When: asked\nuser: hello\nassistant: hi"
    assert document["model"] == "opus"


def test_lists_and_blocks_are_read_line_by_line() -> None:
    text = "---\nbad: a: b\nt:\n  - Read\n  - 'B'\ntext: |\n  one\n  two\nflow: [a, \"b\"]\n---\n"
    document = read(text).fields
    assert document["t"] == ["Read", "B"]
    assert document["text"] == "one\ntwo"
    assert document["flow"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Just a text\n\nand more", "Just a text\n\nand more"),
        ("", ""),
        ("---\n", "---"),
        ("---\nno field here\nat all", "---\nno field here\nat all"),
    ],
)
def test_text_without_frontmatter_is_all_body(text: str, body: str) -> None:
    document = read(text)
    assert (document.fields, document.body) == ({}, body)
    assert document.remarks == ("has no frontmatter",)


def test_unclosed_frontmatter_ends_at_the_first_empty_line() -> None:
    document = read("---\nname: a\nmodel: opus\n\nYou do x.\n")
    assert document.fields == {"name": "a", "model": "opus"}
    assert document.body == "You do x."


def test_yaml_tags_are_ignored(tmp_path: object) -> None:
    document = read("---\nname: !!python/object/apply:os.system ['touch /tmp/never']\n---\nx")
    assert document.fields["name"] == ["touch /tmp/never"]


def test_aliases_and_deep_nesting_are_read_as_plain_lines() -> None:
    bomb = "---\na: &a [x, x]\nb: &b [*a, *a]\nname: bomb\n---\nx"
    assert read(bomb).fields["name"] == "bomb"
    deep = "---\nname: deep\nx: " + "[" * 500 + "]" * 500 + "\n---\nx"
    assert read(deep).fields["name"] == "deep"
    assert "nested too deeply" in read(deep).remarks[0]


def test_line_ends_byte_order_marks_and_encodings_are_read() -> None:
    for raw in (
        b"\xef\xbb\xbf---\r\nname: a\r\n---\r\nx\r\ny",
        "---\nname: a\n---\nx\ny".encode("utf-16"),
        b"---\rname: a\r---\rx\ry",
    ):
        document = read(decode(raw)[0])
        assert document.fields == {"name": "a"}
        assert document.body == "x\ny"


def test_invalid_and_excess_bytes_are_reported() -> None:
    assert decode(b"a\xffb") == ("a\ufffdb", ("contains bytes that are not text",))
    text, remarks = decode(b"x" * (SIZE_LIMIT_BYTES + 1))
    assert len(text) == SIZE_LIMIT_BYTES
    assert "only its beginning" in remarks[0]


_NAMES = st.sampled_from(["name", "tools", "model", "x-y", "on"])
_PLAIN_VALUES = st.text("ab Z09_,.;()/'-: #", max_size=12) | st.sampled_from(["true", "null", "No"])


@given(st.lists(st.tuples(_NAMES, _PLAIN_VALUES), min_size=1, max_size=4))
def test_fast_path_agrees_with_yaml(fields: list[tuple[str, str]]) -> None:
    block = "\n".join(f"{name}: {value}" for name, value in fields)
    simple = frontmatter._simple(block)
    if simple is not None:
        assert simple == frontmatter._yaml(block)


def test_ordinary_files_take_the_fast_path() -> None:
    block = "name: explore\ndescription: Find, read; where it is.\ntools: read_file, grep"
    assert frontmatter._simple(block) is not None
    assert frontmatter._simple("name: a\ndescription: what: is this") is None
