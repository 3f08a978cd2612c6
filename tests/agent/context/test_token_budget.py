"""Requests of a long conversation: valid, within the window and with a stable prefix."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.history_validation import is_valid
from agent.context.token_budget import TrimmedMessages, trim_to_budget
from agent.prompts import load_prompt
from agent.providers.token_estimate import estimate, estimate_text
from agent.types import (
    Context,
    Image,
    Message,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    assistant,
    user,
)
from tests.agent.strategies import ANY_MESSAGE, ANY_TEXT, rounds

LIMITS = st.integers(300, 4000)
MARK = 20
NOTE = estimate_text(load_prompt("trimmed"))


def request_points(messages: list[Message]) -> list[int]:
    """Return the conversation lengths at which a request was sent."""
    last = len(messages)
    return [n for n in range(1, last) if messages[n].role == "assistant"] + [last]


def least_tokens(messages: list[Message]) -> int:
    """Return the tokens of the messages with every text shortened to the minimum."""
    return sum(
        estimate(message) - sum(max(estimate_text(part.text) - MARK, 0) for part in _texts(message))
        for message in messages
    )


def _texts(message: Message) -> list[Text]:
    return [part for part in message.content if isinstance(part, Text)]


def sent(window: TrimmedMessages) -> list[tuple[object, ...]]:
    return [(m.role, m.content, m.tool_calls, m.tool_call_id) for m in window.messages]


@given(rounds(), LIMITS, st.booleans())
def test_trimmed_window_is_valid_and_begins_with_a_user_message(
    messages: list[Message], limit: int, trimmed: bool
) -> None:
    window = trim_to_budget(messages, limit, trimmed=trimmed)
    assert is_valid(window.messages)
    assert window.messages[0].role == "user"
    assert 0 <= window.dropped < len(messages)
    assert window.tokens == sum(map(estimate, window.messages))
    last, newest = window.messages[-1], messages[-1]
    assert (last.role, last.tool_calls, last.tool_call_id) == (
        newest.role,
        newest.tool_calls,
        newest.tool_call_id,
    )


@given(rounds(), LIMITS)
def test_trimmed_window_fits_if_possible(messages: list[Message], limit: int) -> None:
    window = trim_to_budget(messages, limit)
    if least_tokens(list(window.messages)) <= limit * 0.5:
        assert window.tokens <= limit


@given(rounds(), LIMITS)
def test_requests_continue_each_other_until_the_window_is_full(
    messages: list[Message], limit: int
) -> None:
    points = request_points(messages)
    windows = [trim_to_budget(messages[:n], limit) for n in points]
    for (n, before), (m, after) in pairwise(zip(points, windows, strict=True)):
        goes_on = sent(after)[: len(before.messages)] == sent(before)
        # A cut between equal messages is indistinguishable from a continuation.
        if not goes_on or after.dropped != before.dropped:
            assert after.dropped >= before.dropped
            grown = before.tokens + sum(map(estimate, messages[n:m]))
            assert grown > limit - NOTE


@given(st.lists(st.integers(10, 300), min_size=30, max_size=80), st.integers(2000, 4000))
def test_cut_leaves_room_for_many_requests(sizes: list[int], limit: int) -> None:
    messages = [
        message for size in sizes for message in (user("word" * size), assistant("word" * size))
    ]
    windows = [trim_to_budget(messages[:n], limit) for n in request_points(messages)]
    for before, after in pairwise(windows):
        if after.dropped == before.dropped:
            assert sent(after)[: len(before.messages)] == sent(before)
        else:
            # A cut leaves at most two thirds of the window in use.
            assert after.tokens <= limit * 0.7
            assert after.messages[0].content[0] == Context(load_prompt("trimmed"))


@given(rounds(), LIMITS)
def test_cut_of_a_conversation_is_deterministic(messages: list[Message], limit: int) -> None:
    assert sent(trim_to_budget(messages, limit)) == sent(trim_to_budget(messages, limit))


@given(rounds(longest=200), st.integers(100_000, 200_000))
def test_window_that_fits_is_unchanged(messages: list[Message], limit: int) -> None:
    window = trim_to_budget(messages, limit)
    assert window.messages == messages
    assert all(result is other for result, other in zip(window.messages, messages, strict=True))
    assert window.dropped == 0


def test_stored_cut_gives_the_same_window() -> None:
    """The gateway drops the messages before the window and loads the rest with `trimmed`."""
    messages: list[Message] = []
    for n in range(60):
        messages += [user(f"question {n} " * 20), assistant(f"answer {n} " * 20)]
        whole = trim_to_budget(messages, 3000)
        if whole.dropped:
            rest = trim_to_budget(messages[whole.dropped :], 3000, trimmed=True)
            assert sent(rest) == sent(whole)
    assert whole.dropped


def test_long_round_keeps_its_question_and_its_newest_steps() -> None:
    messages = [user("old"), assistant("old"), user("the question")]
    for n in range(30):
        call = ToolCall(f"c{n}", "look", {}, "{}")
        messages += [assistant("", (call,)), Message("tool", (Text("x" * 800),), (), call.id)]
    window = trim_to_budget(messages, 2000)
    assert window.tokens <= 2000
    assert window.messages[0].text == "the question"
    assert window.messages[1].role == "assistant"
    assert window.messages[-1].tool_call_id == "c29"
    assert window.messages[-1].text == "x" * 800


def test_message_longer_than_the_window_loses_its_middle() -> None:
    window = trim_to_budget([user("begin " + "middle " * 5000 + "end", "[noon]")], 1000)
    (message,) = window.messages
    assert window.tokens <= 1000
    assert message.text.startswith("begin middle")
    assert message.text.endswith("middle end")
    assert "characters left out" in message.text
    assert message.content[-1] == Context("[noon]")


def test_longest_texts_are_shortened_first() -> None:
    calls = tuple(ToolCall(f"c{n}", "look", {}, "{}") for n in range(2))
    messages = [
        user("short question"),
        assistant("", calls),
        Message("tool", (Text("tiny"),), (), "c0"),
        Message("tool", (Text("x" * 40_000),), (), "c1"),
    ]
    window = trim_to_budget(messages, 1000)
    assert [message.text for message in window.messages[:3]] == ["short question", "", "tiny"]
    assert "characters left out" in window.messages[3].text
    assert window.tokens <= 1000


def test_empty_conversation_is_trimmed_to_nothing() -> None:
    assert list(trim_to_budget([], 100, trimmed=True).messages) == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 1), ("a" * 400, 101), ("漢" * 100, 101), ("🙂" * 10, 21), ("ä" * 300, 101)],
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


@given(ANY_TEXT)
def test_estimate_is_at_most_two_tokens_per_character(text: str) -> None:
    assert 1 <= estimate_text(text) <= 2 * len(text) + 1


@given(ANY_MESSAGE)
def test_cached_estimate_is_not_compared(message: Message) -> None:
    same = Message(
        message.role, message.content, message.tool_calls, message.tool_call_id, message.is_error
    )
    assert estimate(message) == estimate(message)
    assert message == same
    assert repr(message) == repr(same)


def test_thinking_is_not_counted() -> None:
    hidden = RedactedThinking("x" * 400)
    thoughtful = Message("assistant", (Thinking("hm " * 100), hidden, Text("yes")))
    assert estimate(thoughtful) == estimate(assistant("yes"))


def test_picture_is_counted_by_its_size_in_pixels() -> None:
    small, large = (Message("user", (Image("image/png", b"x" * n),)) for n in (10, 1_000_000))
    assert estimate(small) == estimate(large)
    assert 1000 < estimate(small) < 2000
