"""Conversion of positions between characters and server units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.code.lsp.protocol.positions import ENCODINGS, Encoding, TextLines, units_of

_TEXT = st.text("ab\t\n\réü中文😀𝒳\u2028\u0085")


@given(_TEXT, st.sampled_from(ENCODINGS), st.data())
def test_position_survives_round_trip(text: str, encoding: Encoding, data: st.DataObject) -> None:
    lines = TextLines(text)
    offset = data.draw(st.integers(0, len(text)))
    position = lines.position(offset)
    # A position inside a line end is not representable.
    position_in_line = min(position.character, len(lines.line(position.line)))
    back = lines.offset(lines.to_wire(position, encoding), encoding)
    assert lines.position(back).line == position.line
    assert lines.position(back).character == position_in_line


def test_lines_end_as_the_protocol_defines() -> None:
    lines = TextLines("a\r\nb\rc\nd\u2028e\x0bf")
    assert [lines.line(n) for n in range(len(lines))] == ["a", "b", "c", "d\u2028e\x0bf"]


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 7), ("utf-16", 3), ("utf-32", 2)])
def test_units_depend_on_the_encoding(encoding: Encoding, units: int) -> None:
    assert units_of("中😀", encoding) == units


def test_position_past_the_end_is_the_end() -> None:
    lines = TextLines("ab\ncd")
    assert lines.offset({"line": 0, "character": 99}, "utf-16") == 2
    assert lines.offset({"line": 99, "character": 0}, "utf-16") == 5


@pytest.mark.parametrize(
    "position", [None, {}, {"line": "x", "character": 0}, {"line": -1, "character": 0}, []]
)
def test_malformed_position_is_rejected(position: object) -> None:
    with pytest.raises(ValueError, match=r"position|invalid literal"):
        TextLines("a").offset(position, "utf-8")
