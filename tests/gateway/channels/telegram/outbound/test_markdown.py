"""Rendering of answers: the visible text and its formatted words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.telegram.outbound import render as rendering
from gateway.channels.telegram.outbound.entity_writer import EntityWriter
from gateway.channels.telegram.outbound.markdown import MarkdownRenderer
from gateway.channels.telegram.outbound.markdown_prepare import parse_markdown
from gateway.channels.telegram.outbound.render import render
from gateway.channels.telegram.outbound.rich_message import plain_entities
from gateway.channels.telegram.outbound.table import cells_of
from gateway.core.messages import OutboundPart
from tests.gateway.channels.telegram.strict import covered_text


def one(markdown: str) -> OutboundPart:
    (part,) = render(markdown)
    return part


def formats_of(markdown: str) -> list[tuple[str, str]]:
    part = one(markdown)
    return [(entity.type, covered_text(part, entity)) for entity in plain_entities(part)]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("- a\n  - b\n    - c\n- d", "• a\n   ◦ b\n      ▪ c\n• d"),
        ("3. a\n1. b\n\n   more", "3. a\n4. b\n\n   more"),
        ("- [ ] a\n- [x] b\n\n1. [x] c", "☐ a\n☑ b\n\n1. ☑ c"),
        ("- \n- b", "• \n• b"),
        ("> a\n> > b\n> > c", "a\n│ b\n│ c"),
        ("> [!NOTE]\n> Read it.", "Note\nRead it."),
        ("a\n\n---\nb", "a\n\n———\nb"),
        ("# A\ntext\n## B\nmore", "A\ntext\n\nB\nmore"),
        ("a[^1] b\n\n[^1]: c\n    d", "a[1] b\n\n[1] c\n   d"),
        ("2*3*4 and __init__ and ~5 or ~6", "2*3*4 and __init__ and ~5 or ~6"),
        ("costs $5 or $6, x=$A/$B", "costs $5 or $6, x=$A/$B"),
        ("so $x_1^2 \\le \\alpha$ holds", "so x₁² ≤ α holds"),
        ("$$\\frac{a}{b}$$", "a/b"),
        ("![a plot](plot.png)", "🖼 a plot (plot.png)"),
        ("[unused]: https://x.y/z", "[unused]: https://x.y/z"),
        ("if a || b || c", "if a || b || c"),
    ],
)
def test_markdown_is_rendered(markdown: str, shown: str) -> None:
    assert one(markdown).text == shown


def test_formatting_is_split_around_code() -> None:
    assert formats_of("**a `b` c**") == [("bold", "a"), ("code", "b"), ("bold", "c")]
    assert formats_of("[see `b`](https://x.y)") == [("text_link", "see b")]
    assert formats_of("||a **b|| c**") == [("spoiler", "a b"), ("bold", "b"), ("bold", "c")]
    assert formats_of("||a\n> b|| c") == [("spoiler", "a"), ("blockquote", "b c")]
    assert formats_of("> a `b`") == [("blockquote", "a b"), ("code", "b")]


def test_long_quotation_is_collapsed() -> None:
    assert [kind for kind, _ in formats_of("> " + "word " * 200)] == ["expandable_blockquote"]


def test_formula_without_a_unicode_form_is_code() -> None:
    assert formats_of("$\\unknowncommand{x}$") == [("code", "\\unknowncommand{x}")]


def test_formula_never_becomes_a_link() -> None:
    assert formats_of("$evil\\mathrm{.}com/x$") == [("code", "evil\\mathrm{.}com/x")]


def test_narrow_table_has_columns() -> None:
    part = one("| a | n |\n|---|--:|\n| 中文 | 1 |\n| x | 22 |")
    assert part.text == "a    │  n\n─────┼───\n中文 │  1\nx    │ 22"
    assert [entity.type for entity in plain_entities(part)] == ["pre"]


def test_wide_table_is_shown_row_by_row() -> None:
    wide = "a column with a long name"
    part = one(
        f"| Who | {wide} | Third |\n|---|---|---|\n| **Ann** | {wide} | `x` |\n| Bob | | y |"
    )
    assert part.text == f"Who: Ann\n• {wide}: {wide}\n• Third: x\n\nWho: Bob\n• Third: y"
    assert [(e.type, covered_text(part, e)) for e in plain_entities(part)] == [
        ("bold", "Ann"), ("code", "x"), ("bold", "Bob"),
    ]  # fmt: skip


def test_links_in_a_table_can_be_followed() -> None:
    assert formats_of("| a | b |\n|---|---|\n| x | [y](https://x.y) |")[1] == ("text_link", "y")


def test_cells_beyond_the_head_are_preserved() -> None:
    assert "three" in one("| a | b |\n|---|---|\n| one | two | three |").text


@pytest.mark.parametrize(
    ("text", "cells"),
    [("abc", 3), ("中文", 4), ("é", 1), ("👩\u200d💻", 2), ("❤\ufe0f", 2), ("👍🏽", 2)],
)
def test_text_width_is_measured_in_cells(text: str, cells: int) -> None:
    assert cells_of(text) == cells


SAID = st.text(alphabet=st.sampled_from("abcZé語😀 .,:;-+=(){}'\"/%@?0123456789\n\t"), max_size=80)


@given(SAID)
def test_plain_text_shortcut_matches_the_parser(text: str) -> None:
    if rendering._PLAIN.fullmatch(text):
        source, events = parse_markdown(text)
        walk = MarkdownRenderer(source)
        walk.events(events)
        assert walk.finish() == (text, [])


def test_deep_nesting_costs_no_more_than_shallow_nesting() -> None:
    marks = EntityWriter()
    for _ in range(10_000):
        marks.open("blockquote")
        marks.indent("│ ", "• ")
    marks.write("a")
    assert len(marks._open) == 1
    assert len(marks._margins) <= 64
    for _ in range(10_000):
        marks.outdent()
        marks.close("blockquote")
    text, (quote,) = marks.finish()
    assert text.endswith("a")
    assert quote.offset + quote.length == len(text)
    assert marks._margins == []
