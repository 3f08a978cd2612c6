import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.telegram.outbound.split import MAX_UNITS, split
from gateway.channels.telegram.utf16 import breaks_at, is_blank, units
from gateway.core.messages import Entity, OutboundPart
from tests.gateway.channels.telegram.outbound.pages import check

FAMILY = "👨‍👩‍👧‍👦"
ALPHABET = st.sampled_from(
    [
        "a",
        "b ",
        " ",
        "\n",
        "\n\n",
        "é",
        "e\u0301",
        "語",
        "。",
        "שלום ",
        "😀",
        FAMILY,
        "🇩🇪",
        "👍🏽",
        "\t",
        ". ",
    ]
)
TEXT = st.lists(ALPHABET, max_size=200).map("".join)


def in_order(text: str, parts: tuple[OutboundPart, ...]) -> list[int]:
    """Return the position of each part in the text; text between parts must be blank."""
    at, starts = 0, []
    for part in parts:
        start = text.index(part.text, at)
        assert is_blank(text[at:start]), f"lost {text[at:start]!r}"
        starts.append(start)
        at = start + len(part.text)
    assert is_blank(text[at:]), f"lost {text[at:]!r}"
    return starts


@given(TEXT, st.integers(min_value=12, max_value=80))
def test_all_text_is_preserved_and_every_part_fits(text: str, limit: int) -> None:
    parts = split(text, limit_units=limit)
    for part in parts:
        check(part, limit)
    in_order(text, parts)


@given(TEXT, st.integers(min_value=12, max_value=80))
def test_visible_characters_are_not_split(text: str, limit: int) -> None:
    parts = split(text, limit_units=limit)
    for start, part in zip(in_order(text, parts), parts, strict=True):
        assert breaks_at(text, start) or text[start - 1].isspace()
        assert not part.text.startswith(("\u0301", "\u200d", "🏽")) or text.startswith(part.text)


@given(TEXT, st.data())
def test_entities_cover_the_same_characters_after_the_split(text: str, data: st.DataObject) -> None:
    marks = []
    for _ in range(data.draw(st.integers(0, 4))):
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        if first < last:
            marks.append((first, last))
    entities = [
        Entity(kind, units(text[:a]), units(text[a:b]))
        for (a, b), kind in zip(marks, ("bold", "pre", "italic", "code"), strict=False)
    ]
    parts = split(text, entities, 20)
    covered: list[str] = []
    for part in parts:
        check(part, 20)
        raw = part.text.encode("utf-16-le")
        covered += [
            raw[e.offset * 2 : (e.offset + e.length) * 2].decode("utf-16-le") for e in part.entities
        ]
    expected = "".join(text[a:b] for a, b in marks)
    assert sorted(re.sub(r"\s", "", "".join(covered))) == sorted(re.sub(r"\s", "", expected))


def test_text_that_fits_is_one_part() -> None:
    assert [part.text for part in split("x" * MAX_UNITS)] == ["x" * MAX_UNITS]
    assert len(split("x" * (MAX_UNITS + 1))) == 2
    assert len(split("😀" * (MAX_UNITS // 2 + 1))) == 2


def test_blank_text_has_no_parts() -> None:
    assert split("") == split(" \n\t\n") == split("\u200b\u2800") == ()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("one two three\n\nfour five six", "one two three"),
        ("one two three\nfour five six", "one two three"),
        ("one two. Three four five", "one two."),
        ("onetwo threefourfive six", "onetwo"),
        ("一二三四五六七八九。十一二三四五六", "一二三四五六七八九。"),
        ("abcdefghijklmnopqrst", "abcdefghijklmno"),
        ("abcdefghij \u0301klmnopqrst", "abcdefghij \u0301klm"),
    ],
)
def test_text_is_split_at_natural_boundaries(text: str, first: str) -> None:
    assert split(text, limit_units=15)[0].text == first


def block(text: str, code: str, language: str | None = "py") -> Entity:
    extra = {"language": language} if language else {}
    return Entity("pre", units(text[: text.index(code)]), units(code), extra)


def test_code_block_that_fits_is_not_split() -> None:
    code = "\n\n".join(f"line {n}" for n in range(5))
    text = f"{'intro ' * 5}\n{code}\n{'outro ' * 10}"
    parts = split(text, [block(text, code)], 60)
    (holder,) = [part for part in parts if part.entities]
    assert code in holder.text
    assert holder.entities[0].extra == {"language": "py"}


def test_long_code_block_is_split_at_lines_and_continued_as_a_block() -> None:
    code = "\n".join(f"    if x == {n}: pass" for n in range(40))
    text = f"before\n{code}\nafter"
    parts = split(text, [block(text, code)], 100)
    lines = [line for part in parts for line in part.text.split("\n")]
    assert lines == text.split("\n")
    for part in parts[1:-1]:
        assert part.entities == (Entity("pre", 0, units(part.text), {"language": "py"}),)


def test_too_long_code_line_is_split_without_loss() -> None:
    code = "x" * 250
    parts = split(code, [Entity("pre", 0, 250)], 100)
    assert "".join(part.text for part in parts) == code
    assert all(part.entities for part in parts)


def test_text_without_boundaries_is_split_between_characters() -> None:
    parts = split(FAMILY * 1000)
    assert "".join(part.text for part in parts) == FAMILY * 1000
    assert all(part.text.startswith("👨") and part.text.endswith("👦") for part in parts)


def test_endless_character_is_split() -> None:
    endless = "e" + "\u0301" * 10_000
    assert "".join(part.text for part in split(endless)) == endless
