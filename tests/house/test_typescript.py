"""The TypeScript types of the protocol match the table of calls."""

from tests.house.typescript import FILE, typescript


def test_types_are_current() -> None:
    assert FILE.read_text("utf-8") == typescript(), "run `make schema`"
