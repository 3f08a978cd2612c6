"""QR codes read back module by module, as a camera would see them on a dark screen."""

import re

import pytest
import segno

from gateway.cli.onboarding.qr import qr_lines

LINK = "https://t.me/kore_test_bot?start=Zm9vYmFyYmF6cXV4cXV1eA"
_CELL = re.compile(r"\x1b\[48;5;(\d+)m  ")
_CODE = re.compile(r"\x1b\[[0-9;]*m")


def segno_matrix(text: str) -> list[list[bool]]:
    matrix = segno.make(text, error="l", micro=False).matrix_iter(border=2)
    return [[bool(module) for module in row] for row in matrix]


def halves(lines: list[str], drawn_is_dark: bool) -> list[list[bool]]:
    shapes = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows = []
    for line in lines:
        pairs = [shapes[char] for char in _CODE.sub("", line)]
        rows += [[bool(pair[half]) == drawn_is_dark for pair in pairs] for half in (0, 1)]
    return rows


@pytest.mark.parametrize("colours", [True, False])
def test_half_blocks_show_every_module(colours: bool) -> None:
    lines = qr_lines(LINK, 80, encoding="utf-8", colours=colours)
    modules = halves(lines, drawn_is_dark=colours)
    assert modules[: len(segno_matrix(LINK))] == segno_matrix(LINK)
    assert all(("\x1b[" in line) == colours for line in lines)


def test_terminal_without_block_characters_gets_a_fallback() -> None:
    lines = qr_lines(LINK, 80, encoding="iso-8859-1", colours=True)
    assert [[c == "16" for c in _CELL.findall(line)] for line in lines] == segno_matrix(LINK)
    plain = qr_lines(LINK, 80, encoding="ascii", colours=False)
    dark = [[line[n] == " " for n in range(0, len(line), 2)] for line in plain]
    assert dark == segno_matrix(LINK)
    "".join([*lines, *plain]).encode("ascii")


def test_too_wide_code_is_not_drawn() -> None:
    width = len(segno_matrix(LINK)[0])
    assert qr_lines(LINK, width, encoding="utf-8", colours=True)
    assert qr_lines(LINK, width - 1, encoding="utf-8", colours=True) == []
    assert qr_lines(LINK, 2 * width - 1, encoding="ascii", colours=True) == []
    assert qr_lines(LINK, 80, encoding="no-such-encoding", colours=True)
