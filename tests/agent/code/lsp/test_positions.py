"""Places as servers count them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.code.lsp.protocol.positions import ENCODINGS, Encoding, TextLines, units_of

_TEXT = st.text("ab\t\n\réü中文😀𝒳\u2028\u0085")


@given(_TEXT, st.sampled_from(ENCODINGS), st.data())
def test_every_place_survives_the_way_to_the_server_and_back(
    text: str, encoding: Encoding, data: st.DataObject
) -> None:
    lines = TextLines(text)
    offset = data.draw(st.integers(0, len(text)))
    position = lines.position(offset)
    # Within a line end there is no place of its own.
    position_in_line = min(position.character, len(lines.line(position.line)))
    back = lines.offset(lines.to_wire(position, encoding), encoding)
    assert lines.position(back).line == position.line
    assert lines.position(back).character == position_in_line


def test_lines_end_as_the_protocol_says() -> None:
    lines = TextLines("a\r\nb\rc\nd\u2028e\x0bf")
    assert [lines.line(n) for n in range(len(lines))] == ["a", "b", "c", "d\u2028e\x0bf"]


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 7), ("utf-16", 3), ("utf-32", 2)])
def test_units_differ(encoding: Encoding, units: int) -> None:
    assert units_of("中😀", encoding) == units


def test_what_lies_beyond_is_the_end() -> None:
    lines = TextLines("ab\ncd")
    assert lines.offset({"line": 0, "character": 99}, "utf-16") == 2
    assert lines.offset({"line": 99, "character": 0}, "utf-16") == 5


@pytest.mark.parametrize(
    "position", [None, {}, {"line": "x", "character": 0}, {"line": -1, "character": 0}, []]
)
def test_what_is_no_position_is_refused(position: object) -> None:
    with pytest.raises(ValueError, match=r"position|invalid literal"):
        TextLines("a").offset(position, "utf-8")
