"""Promises in a text."""

import pytest

from agent.signals import find_signal


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
def test_the_last_promise_of_a_text_is_found(text: str, found: tuple[str | None, str]) -> None:
    assert find_signal(text) == found
