"""Form of the architecture decisions: titles, status lines and their index."""

import re
from pathlib import Path

import pytest

from tests.house.pages import DOCS, page

DECISIONS = sorted((DOCS / "adr").glob("[0-9]*.md"))
_LINK = r"\[\d{4}\]\([\w-]+\.md\)"
_STATUS = re.compile(
    rf"Status: (?:accepted|superseded by {_LINK})(?: \(\d{{4}}-\d\d-\d\d\))?\."
    rf"(?: (?:Amended by|Supersedes|Amends) {_LINK}(?:, {_LINK})*\.)*"
)
COUNTERPARTS = {"superseded by": "Supersedes", "Amended by": "Amends"}


def title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0]


def status(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n")[2]


def linked(line: str, relation: str) -> set[str]:
    """Return the numbers of the decisions that a status line links as `relation`."""
    match = re.search(rf"{relation} ([^.]*\.md\)(?:, [^.]*\.md\))*)", line)
    return set(re.findall(r"\[(\d{4})\]", match[1])) if match else set()


def relations() -> dict[str, set[tuple[str, str]]]:
    """Return pairs of numbers for each relation between decisions."""
    return {
        relation: {
            (path.name[:4], number)
            for path in DECISIONS
            for number in linked(status(path), relation)
        }
        for pair in COUNTERPARTS.items()
        for relation in pair
    }


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_decision_begins_with_title_and_status(path: Path) -> None:
    assert re.fullmatch(rf"# {path.name[:4]}: \S.*", title(path))
    assert _STATUS.fullmatch(status(path))


def test_numbers_of_decisions_are_unique() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert len(numbers) == len(set(numbers))


def test_index_has_the_title_of_each_decision() -> None:
    listed = re.findall(r"^- \[(\d{4}) (.+)\]\(([\w-]+\.md)\)", page("adr/index"), re.MULTILINE)
    expected = {(path.name[:4], title(path).partition(": ")[2], path.name) for path in DECISIONS}
    assert sorted(listed) == sorted(expected)


def test_index_names_the_superseding_decision() -> None:
    noted = re.findall(
        r"^- \[(\d{4}) .*\(superseded by (\d{4})\)$", page("adr/index"), re.MULTILINE
    )
    assert set(noted) == relations()["superseded by"]


@pytest.mark.parametrize("relation", COUNTERPARTS)
def test_related_decisions_name_each_other(relation: str) -> None:
    counterpart = {(old, new) for new, old in relations()[COUNTERPARTS[relation]]}
    assert relations()[relation] == counterpart
