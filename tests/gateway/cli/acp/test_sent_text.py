"""Text of a reply that starts over."""

import pytest

from gateway.cli.acp.updates import SentText


def take_all(sent: SentText, *pieces: str) -> str:
    return "".join(map(sent.take, pieces))


def sent_text_after_restart(*pieces: str) -> SentText:
    """Return the state of a reply that starts over after these words."""
    sent = SentText()
    assert take_all(sent, *pieces) == "".join(pieces)
    sent.begin_again()
    return sent


@pytest.mark.parametrize(
    "pieces", [("One two three",), ("One", " ", "two th", "ree"), (*"One two three",)]
)
def test_only_missing_text_is_sent(pieces: tuple[str, ...]) -> None:
    sent = sent_text_after_restart("One ", "tw")
    assert take_all(sent, *pieces) == "o three"
    assert sent.end_reply() == ""


@pytest.mark.parametrize("words", ["One two", "One two\n", "\n\nOne two"])
def test_repeated_text_is_not_sent_again(words: str) -> None:
    sent = sent_text_after_restart("\n\nOne", " two\n")
    assert take_all(sent, *words).strip() + sent.end_reply() == ""


def test_different_text_follows_the_first() -> None:
    sent = sent_text_after_restart("One two")
    assert take_all(sent, "One", " tree", "s") == "\n\nOne trees"
    assert sent.end_reply() == ""


def test_shorter_text_is_sent_at_the_end() -> None:
    sent = sent_text_after_restart("One two three")
    assert take_all(sent, "One", " two") == ""
    assert sent.end_reply() == "\n\nOne two"
    # Further text belongs to another reply.
    assert take_all(sent, "One", " two") == "One two"


def test_second_restart_during_repetition_loses_no_text() -> None:
    sent = sent_text_after_restart("One two")
    assert take_all(sent, "One") == ""
    sent.begin_again()
    assert take_all(sent, "One two", " three") == " three"
    sent.begin_again()
    assert take_all(sent, "One two three", " four") == " four"
