"""Detection of promises in a reply."""

import pytest

from agent.turn.completion_signal import find_signal, humanize_signals


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("all done", (None, None)),
        ("<promise>COMPLETE</promise>", ("COMPLETE", None)),
        ("so <promise>blocked: no key </promise>.", ("BLOCKED", "no key")),
        ("<promise>DECIDE:red: or\nblue?</promise>", ("DECIDE", "red: or\nblue?")),
        ("<promise>DECIDE:</promise>", ("DECIDE", None)),
        ("<promise>BLOCKED</promise> no, <promise>COMPLETE</promise>", ("COMPLETE", None)),
        ("<promise>MAYBE</promise>", (None, None)),
        ("<promise>COMPLETED</promise>", (None, None)),
        ("<promise>COMPLETE", (None, None)),
    ],
)
def test_last_promise_of_a_text_counts(text: str, found: tuple[str | None, str]) -> None:
    assert find_signal(text) == found


def test_promises_are_shown_in_words() -> None:
    text = "I wait. <promise>blocked: no key </promise> <promise>COMPLETE</promise>"
    assert humanize_signals(text) == "I wait. ■ BLOCKED: no key ■ COMPLETE"
    assert (
        humanize_signals("as it is: <promise>MAYBE</promise>")
        == "as it is: <promise>MAYBE</promise>"
    )


def test_partial_promise_of_a_growing_text_is_hidden() -> None:
    whole = "one <promise>BLOCKED:no key</promise> two"
    assert humanize_signals(whole, growing=True) == "one ■ BLOCKED: no key two"
    assert humanize_signals(whole[:30], growing=True) == "one "
