import pytest

from gateway.cli.output import clean, layout_lines, print_table, size


def test_wide_characters_keep_columns_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("你好", "x"), ("four", "y")])
    assert capsys.readouterr().out == "a     b\n你好  x\nfour  y\n"


def test_narrow_terminal_wraps_the_widest_cells() -> None:
    table = [("name", "for", "from"), ("explore", "Find and read where 世界 is", "built in")]
    lines = list(layout_lines(table, 36))
    assert lines == [
        "name     for                from",
        "explore  Find and read      built in",
        "         where 世界 is",
    ]


def test_word_wider_than_its_column_is_split_between_characters() -> None:
    table = [("a", "世界世界世界世界")]
    assert list(layout_lines(table, 16)) == ["a  世界世界世界", "   世界"]


def test_terminal_too_narrow_for_columns_gets_a_block_per_row() -> None:
    table = [
        ("id", "last active", "where"),
        ("1", "2026-11-21 17:30", "in the kitchen"),
        ("2", "never", ""),
    ]
    assert list(layout_lines(table, 27)) == [
        "id           1",
        "last active  2026-11-21",
        "             17:30",
        "where        in the kitchen",
        "",
        "id           2",
        "last active  never",
    ]


def test_control_characters_become_blanks() -> None:
    assert clean("a\x1b[1m\nb\u202e") == r"a\u{1b}[1m b\u{202e}"


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e12, "2.5 TB")]
)
def test_sizes_are_readable(count: float, expected: str) -> None:
    assert size(count) == expected
