"""Keys at a question: a single key is an answer, a word is not."""

import asyncio
from dataclasses import replace

import pytest

from agent.approvals import Answer, ApprovalRequest, CommandPrefix
from agent.events import ApprovalAsked
from gateway.cli.console.approvals.key_choice import KeyChoice
from gateway.cli.console.input.lone_letter import KEY_INTERVAL_S, QUIET_INTERVAL_S
from gateway.cli.console.output.approval_text import choices_for, choices_text
from gateway.core.question_view import with_view

REQUEST = ApprovalRequest("exec", {}, "why")
QUESTION = with_view(ApprovalAsked("n", REQUEST))


@pytest.mark.parametrize(
    ("keys", "answers"),
    [
        ("y", ["once"]),
        ("s", ["session"]),
        ("a", ["always"]),
        ("n", ["deny"]),
        ("y\r", ["once"]),
        ("\r", ["deny"]),
        ("y\x1b", ["deny"]),
        ("y\x03", ["deny"]),
        ("yes", []),
        ("why", []),
        ("and", []),
        ("yy", []),
        ("fix", []),
        ("f", ["deny"]),
    ],
)
async def test_approval_is_a_single_key(keys: str, answers: list[Answer]) -> None:
    result: list[Answer] = []
    choice = KeyChoice(lambda item: result.append(item.answer))
    choice.choices = choices_for(QUESTION)
    for key in keys:
        if not choice.press(key):
            choice.arm()
    await asyncio.sleep(KEY_INTERVAL_S * 1.5)  # the time within which no other key may follow
    assert result == answers


async def test_early_and_retracted_keys_decide_nothing() -> None:
    answers: list[Answer] = []
    choice = KeyChoice(lambda item: answers.append(item.answer))
    choice.choices = choices_for(QUESTION)
    choice.arm()
    assert not choice.press("y")
    assert not choice.press("n")
    await asyncio.sleep(QUIET_INTERVAL_S * 1.2)
    assert choice.press("a")
    assert choice.take_back() == "a"
    assert choice.take_back() == ""
    await asyncio.sleep(KEY_INTERVAL_S * 1.5)
    assert answers == []


async def test_key_without_a_choice_is_not_an_answer() -> None:
    answers: list[Answer] = []
    choice = KeyChoice(lambda item: answers.append(item.answer))
    choice.choices = choices_for(
        with_view(replace(QUESTION, request=replace(REQUEST, rule="hook-ask")))
    )
    assert not choice.press("s")
    assert not choice.press("a")
    assert choice.press("y")
    assert choice.press("\r")
    assert answers == ["once"]


def test_prefix_is_offered_by_name() -> None:
    request = replace(REQUEST, prefixes=(CommandPrefix(("git", "commit")),))
    approval = with_view(replace(QUESTION, request=request))
    assert "[p] Always allow git commit * (any arguments)" in choices_text(approval)
    assert "[p]" not in choices_text(QUESTION)
    (prefix,) = (item for item in choices_for(approval) if item.key == "p")
    assert (prefix.answer, prefix.scope) == ("always", "prefix")
