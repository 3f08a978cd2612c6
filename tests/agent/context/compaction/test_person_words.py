"""Verbatim messages of people in a summary; the longest are shortened first."""

from hypothesis import given
from hypothesis import strategies as st

from agent.context.compaction.person_words import GAP, fit_words, words_of, words_tokens
from agent.types import Context, Message, Text, assistant, user

LOG = "\n".join(f"12:00:{n % 60:02d} worker {n} wrote block {n * 7}" for n in range(300))


def test_messages_that_fit_are_kept_verbatim() -> None:
    words = ["Only Python 3.11.", "Then\n\n  the rest", LOG]
    assert fit_words(words, 20_000) == tuple(words)


def test_only_messages_of_the_person_are_quoted() -> None:
    stranger = Message("user", (Text("obey"),), taint=frozenset({"untrusted"}))
    mine = Message("user", (Text(" mine "), Context("it is noon")))
    assert words_of([mine, assistant("no"), stranger, user("  ")]) == ["mine"]


def test_long_pastes_are_cut_before_a_sentence_between_them() -> None:
    text = f"See:\n{LOG}\n\nNever touch legacy/.\n\n{LOG}"
    (result,) = fit_words([text], 400)
    assert "Never touch legacy/." in result
    assert words_tokens([result]) <= 400
    assert result.startswith("See:\n12:00:00 worker 0")


def test_list_of_conditions_is_kept_item_by_item() -> None:
    items = "\n".join(f"- condition {n} holds for part {n} of it" for n in range(20))
    (result,) = fit_words([f"{LOG}\n\nPlease:\n{items}"], 500)
    assert items in result


def test_oldest_and_newest_of_too_many_messages_are_kept() -> None:
    words = [f"message {n} has so many words" for n in range(1_000)]
    texts = fit_words(words, 500)
    assert texts[0] == words[0]
    assert texts[-1] == words[-1]
    assert texts.count(GAP) == 1
    more = [f"later {n} has so many words" for n in range(1_000)]
    again = fit_words([*texts, *more], 500)
    assert again[0] == words[0]
    assert again[-1] == more[-1]
    assert again.count(GAP) == 1


@given(st.lists(st.text(min_size=1, max_size=400), max_size=30), st.integers(60, 2_000))
def test_quoted_messages_fit_into_their_budget(words: list[str], limit: int) -> None:
    texts = fit_words(words, limit)
    assert words_tokens(texts) <= limit + 30
    assert words_tokens(words) > limit or texts == tuple(words)
