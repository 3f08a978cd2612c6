import pytest

from gateway.cli.table import clean, print_table, size


def test_wide_characters_keep_the_columns_straight(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("你好", "x"), ("four", "y")])
    assert capsys.readouterr().out == "a     b\n你好  x\nfour  y\n"


def test_control_characters_become_blanks() -> None:
    assert clean("a\x1b[1m\nb\u202e") == "a [1m b "


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e12, "2.5 TB")]
)
def test_sizes_are_readable(count: float, said: str) -> None:
    assert size(count) == said
