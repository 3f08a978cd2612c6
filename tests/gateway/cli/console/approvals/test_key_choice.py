"""Keys at a question: a key alone is an answer, a word is none."""

import asyncio

import pytest

from agent.security.policy.base import Answer
from gateway.cli.console.approvals.key_choice import ALONE_S, PAUSE_S, KeyChoice


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
    ],
)
async def test_consent_is_a_key_alone(keys: str, answers: list[Answer]) -> None:
    given: list[Answer] = []
    choice = KeyChoice(given.append)
    for key in keys:
        if not choice.press(key):
            choice.arm()
    await asyncio.sleep(ALONE_S * 1.5)  # the time in which nothing may follow
    assert given == answers


async def test_early_keys_and_a_letter_that_was_taken_back_decide_nothing() -> None:
    given: list[Answer] = []
    choice = KeyChoice(given.append)
    choice.arm()
    assert not choice.press("y")
    assert not choice.press("n")
    await asyncio.sleep(PAUSE_S * 1.2)
    assert choice.press("a")
    assert choice.take_back() == "a"
    assert choice.take_back() == ""
    await asyncio.sleep(ALONE_S * 1.5)
    assert given == []
