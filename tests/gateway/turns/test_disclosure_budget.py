"""Disclosure budget of a session, which no turn, sub-agent or restart renews."""

from dataclasses import replace
from pathlib import Path

from agent.providers.scripted import EchoProvider
from gateway.core.messages import MessageOptions
from gateway.turns.permissions import StoredDisclosureBudget
from gateway.turns.prompt import is_said
from tests.gateway.parts import chat_message, console_message, running
from tests.gateway.turns.agents.subagent_turns import task, wait_for_answers


async def test_only_messages_of_a_person_renew_the_budget(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(console_message("hello"))
        await wait_for_answers(parts)
        ((session,),) = await parts.stored("session", "id")
        assert await StoredDisclosureBudget(parts.database, session).spend(15)
    async with running(tmp_path, EchoProvider()) as parts:
        budget = StoredDisclosureBudget(parts.database, session)
        budget.renew()
        assert not await budget.spend(6)
        fork = await parts.service.fork_session(session)
        assert not await StoredDisclosureBudget(parts.database, fork).spend(1)
        assert not await budget.spend(1)
        await parts.bus.submit(console_message(task("hello")))
        # The fork has a copy of the first answer.
        await wait_for_answers(parts, 3)
        assert await budget.spend(15)


def test_messages_of_people_are_distinguished() -> None:
    message = chat_message("Good morning")
    assert is_said(message)
    assert is_said(replace(message, kind="job", job=1))
    assert not is_said(replace(message, kind="job", job=1, options=MessageOptions(by_model=True)))
    assert not is_said(replace(message, kind="subagent_report", task=1))
    assert not is_said(replace(message, kind="subagent_task", task=1, lane="task:1"))
    assert not is_said(replace(message, content=""))
