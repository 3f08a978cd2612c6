"""Word index of SQLite, in which an entry is found by its number until it is removed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.gateway.store.transactions import OpenTransaction, open_transaction

TEXTS = [(1, "The dyke at Zürich holds"), (2, "我们明天去北京看长城"), (3, "a dykeless plain")]


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[OpenTransaction]:
    with open_transaction(tmp_path / "kore.db") as tx:
        tx.search.add(TEXTS)
        yield tx


def _matching_rows(tx: OpenTransaction, *phrases: str) -> list[int]:
    query, values = tx.search.matches(phrases)
    return sorted(number for (number,) in tx.all(f"SELECT id FROM ({query}) found", values))


@pytest.mark.parametrize(
    ("phrases", "numbers"),
    [
        (["dyke"], [1, 3]),
        (["dyke", "zurich"], [1]),
        (["at zürich"], [1]),
        (["zürich at"], []),
        (["北京"], [2]),
        (["京北"], []),
        (['dyke" OR "plain'], []),
        (["NOT dyke"], []),
    ],
)
def test_texts_are_found_by_all_of_their_phrases(
    tx: OpenTransaction, phrases: Sequence[str], numbers: Sequence[int]
) -> None:
    assert _matching_rows(tx, *phrases) == numbers


def test_removed_text_is_not_found(tx: OpenTransaction) -> None:
    tx.search.remove([TEXTS[0]])
    assert _matching_rows(tx, "dyke") == [3]
    assert _matching_rows(tx, "zürich") == []
    tx.search.clear()
    assert _matching_rows(tx, "dyke") == []
