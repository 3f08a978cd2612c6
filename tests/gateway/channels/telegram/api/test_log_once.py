"""Frequency of log entries while the connection is down."""

import logging

import pytest

from gateway.channels.telegram.api.log_once import REPEAT_INTERVAL_S, LogOnce


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_unchanged_problem_is_logged_once(
    log: pytest.LogCaptureFixture,
) -> None:
    troubles = LogOnce()
    for _ in range(5):
        troubles.say("polls", "no connection")
        troubles.say("name", "no connection", "no name: no connection")
    troubles.say("polls", "timed out")
    troubles.say("polls", "no connection")
    assert log.messages == ["telegram: no connection", "telegram: timed out"]


def test_persistent_problem_is_logged_again_later(log: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    troubles = LogOnce(clock)
    for _ in range(10):
        troubles.say("polls", "no connection")
        clock.now += REPEAT_INTERVAL_S / 5
    assert len(log.messages) == 2


def test_recovery_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    troubles = LogOnce()
    troubles.over("polls")
    troubles.say("polls", "no connection")
    troubles.say("name", "refused")
    troubles.over("polls")
    troubles.over("polls")
    troubles.say("name", "refused")
    troubles.say("polls", "no connection")
    texts = [message.removeprefix("telegram: ") for message in log.messages]
    assert texts == ["no connection", "refused", "polls again", "no connection"]


def test_number_of_remembered_problems_is_limited() -> None:
    troubles = LogOnce()
    for n in range(1000):
        troubles.say("polls", f"wait {n} s")
    assert len(troubles._logged) < 100
