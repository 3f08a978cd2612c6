"""Choice of the split point of a conversation."""

from hypothesis import given
from hypothesis import strategies as st

from agent.context.compaction.compactor import choose_split_point
from agent.context.history_validation import is_valid
from agent.context.token_budget import FULL_AT_MESSAGES
from agent.providers.token_estimate import estimate
from agent.types import Message, Text, ToolCall, assistant, user
from tests.agent.strategies import rounds


def talk(count: int, size: int = 100) -> list[Message]:
    return [
        message
        for n in range(count)
        for message in (user(f"q{n} " + "x" * size), assistant(f"a{n}"))
    ]


def work(steps: int, size: int = 400) -> list[Message]:
    """Return one round with this number of tool calls."""
    messages = [user("the task")]
    for n in range(steps):
        call = ToolCall(f"c{n}", "look", {}, "{}")
        messages += [assistant("", (call,)), Message("tool", (Text("x" * size),), (), call.id)]
    return messages


def test_cut_keeps_as_many_rounds_as_fit() -> None:
    messages = talk(10)
    cut = choose_split_point(messages, 200)
    assert cut is not None
    result = cut.remaining_messages(messages)
    assert [message.text[:2] for message in result if message.role == "user"] == [
        "q5",
        "q6",
        "q7",
        "q8",
        "q9",
    ]
    assert sum(map(estimate, result)) <= 200


def test_cut_keeps_at_most_half_of_very_many_messages() -> None:
    messages = talk(1_000, size=1)
    cut = choose_split_point(messages, 1_000_000)
    assert cut is not None
    assert len(cut.remaining_messages(messages)) == FULL_AT_MESSAGES // 2


def test_keep_least_keeps_three_rounds() -> None:
    messages = talk(10)
    cut = choose_split_point(messages, 10_000, keep_least=True)
    assert cut is not None
    result = cut.remaining_messages(messages)
    assert [message.text[:2] for message in result if message.role == "user"] == ["q7", "q8", "q9"]
    assert cut.dropped_messages(messages) == messages[:14]
    assert cut.dropped_count == 14


def test_fewer_than_three_rounds_are_kept_if_they_are_too_long() -> None:
    messages = talk(10, size=4000)
    cut = choose_split_point(messages, 2500)
    assert cut is not None
    assert [m.text[:2] for m in cut.remaining_messages(messages) if m.role == "user"] == [
        "q8",
        "q9",
    ]


def test_long_round_keeps_its_request_and_its_newest_steps() -> None:
    messages = [*talk(2), *work(30)]
    cut = choose_split_point(messages, 600)
    assert cut is not None
    result = cut.remaining_messages(messages)
    assert result[0].text == "the task"
    assert len(result) == 1 + 2 * 5
    assert sum(map(estimate, result)) <= 600
    assert is_valid(result)
    assert is_valid(cut.dropped_messages(messages))


def test_kept_request_can_be_cut_again() -> None:
    messages = work(30)
    first = choose_split_point(messages, 600)
    assert first is not None
    again = [*first.remaining_messages(messages), *work(5)[1:]]
    second = choose_split_point(again, 600)
    assert second is not None
    assert second.request == 0
    assert second.remaining_messages(again)[0].text == "the task"


def test_first_question_cannot_be_cut() -> None:
    assert choose_split_point([user("hi")], 10) is None
    assert choose_split_point([user("hi"), assistant("yes")], 1) is None
    assert choose_split_point([], 10) is None


@given(rounds(), st.integers(0, 4000))
def test_cut_gives_two_valid_parts_and_loses_nothing(messages: list[Message], goal: int) -> None:
    cut = choose_split_point(messages, goal)
    if cut is None:
        return
    result, leaving = cut.remaining_messages(messages), cut.dropped_messages(messages)
    assert is_valid(result)
    assert is_valid(leaving)
    assert result[0].role == "user"
    assert result[-1] is messages[-1]
    assert len(leaving) == cut.dropped_count > 0
    assert sum(map(estimate, result)) + sum(map(estimate, leaving)) == sum(map(estimate, messages))
