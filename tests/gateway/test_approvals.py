import asyncio

import pytest

from agent.events import ApprovalAnswered, ApprovalAsked
from agent.security.policy import Answer, ApprovalRequest
from gateway.approvals import Approvals
from gateway.watchers import Watcher, Watchers

LANE = "cli:local:main"


def wish(command: str = "ls") -> ApprovalRequest:
    return ApprovalRequest("exec", {"command": command}, "it runs a command", command)


@pytest.fixture
def watchers() -> Watchers:
    return Watchers()


async def asked(watcher: Watcher) -> ApprovalAsked:
    async with asyncio.timeout(10):
        async for event in watcher:
            if isinstance(event, ApprovalAsked):
                return event
    raise AssertionError("nothing was asked")


async def decided(approvals: Approvals, watcher: Watcher, answer: Answer) -> Answer:
    asking = asyncio.create_task(approvals.approver(LANE, "s").ask(wish()))
    question = await asked(watcher)
    assert approvals.answer(question.nonce, answer, "ann")
    assert not approvals.answer(question.nonce, answer, "ann")
    return await asking


async def test_once_is_once(watchers: Watchers) -> None:
    approvals = Approvals(watchers)
    with watchers.watch(LANE) as watcher:
        assert await decided(approvals, watcher, "once") == "once"
        assert await decided(approvals, watcher, "deny") == "deny"


async def test_a_session_s_consent_is_for_the_same_arguments_there(watchers: Watchers) -> None:
    approvals = Approvals(watchers, expires_s=0.01)
    with watchers.watch(LANE) as watcher:
        assert await decided(approvals, watcher, "session") == "session"
        assert await approvals.ask(LANE, "s", wish()) == "once"
        assert await approvals.ask(LANE, "s", wish("ls /")) == "deny"
        assert await approvals.ask(LANE, "other", wish()) == "deny"


async def test_a_question_that_nobody_answers_is_a_no(watchers: Watchers) -> None:
    approvals = Approvals(watchers, expires_s=0.01)
    with watchers.watch(LANE) as watcher:
        assert await approvals.ask(LANE, "s", wish()) == "deny"
        question = await asked(watcher)
        assert not approvals.answer(question.nonce, "once", "ann")
        watcher.close()
        rest = [event async for event in watcher]
    assert rest == [ApprovalAnswered(question.nonce, "the clock", "deny")]


async def test_nobody_is_asked_when_nobody_watches(watchers: Watchers) -> None:
    assert await Approvals(watchers).ask(LANE, "s", wish()) == "deny"


async def test_a_turn_that_is_stopped_withdraws_its_question(watchers: Watchers) -> None:
    approvals = Approvals(watchers)
    with watchers.watch(LANE) as watcher:
        asking = asyncio.create_task(approvals.ask(LANE, "s", wish()))
        question = await asked(watcher)
        asking.cancel()
        await asyncio.wait({asking})
        assert not approvals.answer(question.nonce, "once", "ann")
        assert not approvals.answer("unknown", "once", "ann")
