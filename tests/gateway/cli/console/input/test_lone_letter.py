"""Letters that are typed alone into an empty line."""

import asyncio

import pytest

from gateway.cli.console.input.lone_letter import (
    KEY_INTERVAL_S,
    QUIET_INTERVAL_S,
    LoneLetter,
)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["b"], 1),
        (["B"], 1),
        (["x"], 0),
        (["b", "bu", "but"], 0),
        (["b", ""], 0),
        # The rest of a word that was deleted.
        (["no", "n", "", "b", "be", "b"], 0),
        (["n", "", "b"], 1),
    ],
)
async def test_only_a_single_letter_in_an_empty_line_is_an_answer(
    lines: list[str], count: int
) -> None:
    decisions: list[None] = []
    letters = LoneLetter(lambda: decisions.append(None))
    letters.offer(["b", "k"])
    await asyncio.sleep(QUIET_INTERVAL_S * 1.2)
    for line in lines:
        letters.note(line)
    await asyncio.sleep(KEY_INTERVAL_S * 1.5)  # the time within which no other key may follow
    assert len(decisions) == count


async def test_letter_before_the_pause_or_after_the_offer_is_no_answer() -> None:
    decisions: list[None] = []
    letters = LoneLetter(lambda: decisions.append(None))
    letters.offer(["b"])
    letters.note("b")
    await asyncio.sleep(KEY_INTERVAL_S * 1.5)
    letters.offer([])
    letters.note("b")
    await asyncio.sleep(KEY_INTERVAL_S * 1.5)
    assert decisions == []
