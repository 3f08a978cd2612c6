"""Events that are worth a notification."""

import pytest

from agent.approvals import ApprovalRequest
from agent.events import ApprovalAnswered, ApprovalAsked, Done, SessionStart, TextDelta
from agent.types import Result
from gateway.core.attention import AttentionRule
from gateway.core.records import SessionEvent

START = SessionStart("20260101_000000", "scripted", "model")
QUESTION = ApprovalAsked("n", ApprovalRequest("exec", {}, "why"))
ANSWER = ApprovalAnswered("n", "", "once")
END = Done(Result(True, "text", "20260101_000000", ()))
STOP = Done(Result(True, "text", "20260101_000000", (), stopped="cancelled"))


def reasons(after_s: float | None, *timed: tuple[float, SessionEvent]) -> list[str]:
    """Return the reasons found in events at these times, in seconds."""
    results: list[str] = []
    clock = [0.0]
    rule = AttentionRule(after_s, lambda: clock[0])
    for clock[0], event in timed:
        if (attention := rule.take("s", event)) is not None:
            results.append(attention.reason)
    return results


@pytest.mark.parametrize(("end_s", "count"), [(9.9, 0), (10, 1)])
def test_only_a_long_turn_is_worth_a_notification(end_s: float, count: int) -> None:
    assert len(reasons(10, (0, START), (5, TextDelta("a")), (end_s, END))) == count


def test_question_is_worth_a_notification_at_once() -> None:
    assert reasons(10, (0, START), (1, QUESTION)) == ["question"]


def test_duration_is_measured_from_the_last_answer() -> None:
    timed = [(0.0, START), (1.0, QUESTION), (60.0, ANSWER), (65.0, END)]
    assert reasons(10, *timed) == ["question"]


def test_person_who_stops_a_turn_needs_no_notification() -> None:
    assert reasons(10, (0, START), (30, STOP)) == []


def test_end_of_a_turn_that_began_earlier_is_not_measured() -> None:
    assert reasons(10, (30, END)) == []


def test_setting_disables_all_notifications() -> None:
    assert reasons(None, (0, START), (1, QUESTION), (60, END)) == []


def test_question_that_is_published_again_notifies_once() -> None:
    assert reasons(10, (0, QUESTION), (1, QUESTION), (2, ANSWER), (3, QUESTION)) == [
        "question",
        "question",
    ]
