"""Choices after a plan: the offer at the end of a turn, and `/build`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.providers.scripted import ScriptedProvider
from agent.types import Context
from gateway.core.messages import InboundMessage, Sender
from gateway.core.turn_choice import PLAN_CHOICES, TurnChoice
from gateway.store.repositories.conversations import sessions
from tests.gateway.parts import (
    Parts,
    accept_messages,
    answer_to,
    chat_message,
    console_message,
    running,
)

OFFER = "`/build free`"
PLAN = "# Plan\n\n1. Change `a.py`. 2. Run the tests."


async def session_of(parts: Parts, message: InboundMessage) -> str:
    session = await parts.database.transact(sessions.bound_session, message.session_key)
    assert session is not None
    return session


async def offered(parts: Parts, message: InboundMessage) -> list[TurnChoice]:
    return list(await parts.service.turn_choices(await session_of(parts, message)))


async def plan(parts: Parts, text: str = "plan it", **more: Any) -> str:
    await answer_to(parts, chat_message("/plan", **more))
    return await answer_to(parts, chat_message(text, **more))


async def until_carried_out(parts: Parts, build: InboundMessage) -> None:
    """Wait until the turn that `/build` started has ended."""
    await parts.until_answered(replace(build, event_id=f"{build.event_id}:build"))


async def test_plan_ends_with_the_choices(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        answer = await plan(parts)
        assert [choice.text for choice in PLAN_CHOICES if choice.text in answer] == [
            "/build free",
            "/build ask",
            "/build fresh",
            "/build keep",
        ]
        choices = await offered(parts, chat_message(""))
        assert [choice.key for choice in choices] == ["b", "a", "f", "k"]


async def test_answer_outside_of_plan_mode_offers_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        assert OFFER not in await answer_to(parts, chat_message("do it"))
        assert await offered(parts, chat_message("")) == []


@pytest.mark.parametrize("text", ["Which file do you mean?", "You are welcome."])
async def test_conversation_in_plan_mode_is_not_a_plan(tmp_path: Path, text: str) -> None:
    async with running(tmp_path, [text], owner="chat:7") as parts:
        assert OFFER not in await plan(parts)
        assert await offered(parts, chat_message("")) == []


async def test_answer_without_the_heading_is_carried_out_on_demand(tmp_path: Path) -> None:
    provider = ScriptedProvider(["I would change `a.py`.", "Done."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        assert OFFER not in await plan(parts)
        await accept_messages(parts, chat_message("/build ask"))
        assert (await parts.platform.answers("1", 4))[3] == "Done."
    assert provider.requests[-1].messages[-1].text == "Carry out the plan."


async def test_failed_turn_is_not_a_plan(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider([]), owner="chat:7") as parts:
        assert OFFER not in await plan(parts)
        assert await offered(parts, chat_message("")) == []


@pytest.mark.parametrize(("name", "mode"), [("free", "accept-edits"), ("ask", "ask")])
async def test_choice_sets_the_mode_and_carries_out_the_plan(
    tmp_path: Path, name: str, mode: str
) -> None:
    provider = ScriptedProvider([PLAN, "Done."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await plan(parts)
        session = await session_of(parts, chat_message(""))
        await accept_messages(parts, chat_message(f"/build {name}"))
        answers = await parts.platform.answers("1", 4)
        assert f"Mode: `{mode}`" in answers[2]
        assert answers[3] == "Done."
        assert await session_of(parts, chat_message("")) == session
        assert await parts.database.transact(sessions.chosen_mode, session) == mode
    last = provider.requests[-1].messages[-1]
    assert last.text == "Carry out the plan."
    assert f"permission mode {mode}" in str(last.content)


async def test_second_choice_finds_no_plan(tmp_path: Path) -> None:
    provider = ScriptedProvider([PLAN, "Done."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await plan(parts)
        await accept_messages(parts, chat_message("/build free"), chat_message("/build free"))
        answers = await parts.platform.answers("1", 5)
        assert sum("no plan here" in answer for answer in answers) == 1
    assert len(provider.requests) == 2


async def test_fresh_conversation_begins_with_the_plan(tmp_path: Path) -> None:
    provider = ScriptedProvider([PLAN, "Done."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await plan(parts)
        session = await session_of(parts, chat_message(""))
        await accept_messages(parts, chat_message("/build fresh"))
        assert (await parts.platform.answers("1", 4))[3] == "Done."
        assert await session_of(parts, chat_message("")) != session
        assert await parts.service.turn_choices(session) == ()
    (message,) = provider.requests[-1].messages
    assert message.text == "Carry out the plan."
    notes = [part.text for part in message.content if isinstance(part, Context)]
    assert sum(PLAN in note for note in notes) == 1


async def test_fresh_conversation_keeps_the_taint_of_the_plan(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN, "Done."], owner="chat:7") as parts:
        await plan(parts)
        session = await session_of(parts, chat_message(""))
        taint = frozenset({"untrusted"})
        await parts.database.transact(sessions.add_taint, session, taint)
        await accept_messages(parts, chat_message("/build fresh"))
        await parts.platform.answers("1", 4)
        successor = await session_of(parts, chat_message(""))
        assert await parts.database.transact(sessions.taint_of, successor) >= taint


async def test_plan_of_another_conversation_is_carried_out_here(tmp_path: Path) -> None:
    provider = ScriptedProvider([PLAN, "Done."])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await plan(parts)
        session = await session_of(parts, chat_message(""))
        begin = console_message(f"/build fresh {session}", "other")
        await accept_messages(parts, begin)
        await until_carried_out(parts, begin)
        assert await session_of(parts, begin) != session
        assert await session_of(parts, chat_message("")) == session


async def test_other_person_cannot_reach_the_plan_of_a_chat(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        await plan(parts)
        session = await session_of(parts, chat_message(""))
        stranger = chat_message(f"/build fresh {session}", "2", sender=Sender("8"))
        assert "no plan here" in await answer_to(parts, stranger)
        assert len(await offered(parts, chat_message(""))) == 4


async def test_keep_planning_ends_the_offer(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        await plan(parts)
        assert "Still in plan mode" in await answer_to(parts, chat_message("/build keep"))
        assert await offered(parts, chat_message("")) == []
        assert (await answer_to(parts, chat_message("/mode"))).startswith("Mode: `plan`")


async def test_message_instead_of_a_choice_continues_planning(tmp_path: Path) -> None:
    provider = ScriptedProvider([PLAN, "Which one?"])
    async with running(tmp_path, provider, owner="chat:7") as parts:
        await plan(parts)
        await answer_to(parts, chat_message("and the docs"))
        assert await offered(parts, chat_message("")) == []
    assert "permission mode plan" in str(provider.requests[-1].messages[-1].content)


async def test_change_of_mode_ends_the_offer(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        await plan(parts)
        await answer_to(parts, chat_message("/mode ask"))
        assert await offered(parts, chat_message("")) == []


async def test_people_other_than_the_owner_are_offered_only_their_modes(tmp_path: Path) -> None:
    other: dict[str, Any] = {"sender": Sender("8")}
    async with running(tmp_path, [PLAN, "Done."], owner="chat:7") as parts:
        answer = await plan(parts, **other)
        assert OFFER not in answer
        assert "`/build ask`" in answer
        choices = await offered(parts, chat_message(""))
        assert [choice.key for choice in choices] == ["a", "f", "k"]
        usage = await answer_to(parts, chat_message("/build", **other))
        assert OFFER not in usage
        assert "`/build ask`" in usage
        refusal = await answer_to(parts, chat_message("/build free", **other))
        assert "Only the owner" in refusal


async def test_option_of_the_command_line_ends_with_the_plan(tmp_path: Path) -> None:
    provider = ScriptedProvider([PLAN, "Done."])
    options = {"mode": "plan"}
    async with running(tmp_path, provider, owner="chat:7") as parts:
        first = console_message("plan it", options=options)
        await accept_messages(parts, first)
        await parts.until_answered(first)
        assert len(await offered(parts, first)) == 4
        begin = console_message("/build ask", options=options)
        await accept_messages(parts, begin)
        await until_carried_out(parts, begin)
    assert "permission mode ask" in str(provider.requests[-1].messages[-1].content)


async def test_one_shot_run_offers_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, [PLAN], owner="chat:7") as parts:
        message = console_message("plan it", "once-1", options={"mode": "plan"})
        await accept_messages(parts, message)
        await parts.until_answered(message)
        assert await offered(parts, message) == []
