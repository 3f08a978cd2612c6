"""The types of the protocol are those of the table."""

from tests.house.typescript import FILE, typescript


def test_the_types_are_current() -> None:
    assert FILE.read_text("utf-8") == typescript(), "run `make schema`"
