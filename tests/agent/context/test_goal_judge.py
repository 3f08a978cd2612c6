"""Verdicts on goals, as models write them."""

import json

import pytest

from agent.context.goal_judge import GoalVerdict, read_verdict
from agent.errors import BadReply

UNMET = {"met": False, "evidence": "", "missing": "a run of the tests", "asks": False}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(UNMET),
        f"```json\n{json.dumps(UNMET, indent=2)}\n```",
        f"Let me see.\n{json.dumps(UNMET)} That is all.",
        json.dumps({"met": False, "missing": "a run\nof the  tests", "more": 1}),
    ],
    ids=["plain", "fenced", "in prose", "lines and blanks"],
)
def test_verdict_is_read_from_the_first_object(text: str) -> None:
    assert read_verdict(text) == GoalVerdict(False, missing="a run of the tests")


@pytest.mark.parametrize(
    "text",
    ["", "It is met.", "[true]", '{"met": "yes"}', '{"met": true', '{"met": false}', "{}"],
)
def test_other_text_is_not_a_verdict(text: str) -> None:
    with pytest.raises(BadReply, match="gave no verdict"):
        read_verdict(text)


def test_lines_hide_nothing_and_are_limited() -> None:
    text = json.dumps({"met": True, "evidence": "\u202e" + "passed " * 200})
    evidence = read_verdict(text).evidence
    assert evidence.startswith("\\u{202e}passed")
    assert len(evidence) == 500
