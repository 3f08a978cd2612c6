"""docs/compatibility.md names every test with a counterpart."""

import re

import pytest

from tests.counterparts import COUNTERPARTS, PAGE, names_of, sentence_of


def rows() -> set[tuple[str, str]]:
    """Return pairs of a sentence and a counterpart of the page."""
    lines = re.findall(r"^- (.+) \((.+)\)$", PAGE.read_text(), re.MULTILINE)
    return {(sentence, name) for sentence, names in lines for name in names.split(", ")}


def test_page_has_every_collected_test(request: pytest.FixtureRequest) -> None:
    """The check is complete only in `make test`, which collects the whole suite."""
    collected = {
        (sentence_of(item), name) for item in request.session.items for name in names_of(item)
    }
    assert not collected - rows(), "run `.ci/run compatibility`"


def test_rows_name_known_counterparts() -> None:
    assert {name for _, name in rows()} <= set(COUNTERPARTS)
