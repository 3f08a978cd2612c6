"""Offer to keep the procedure of a long turn as a skill, and `/learn`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.providers.scripted import ScriptedProvider, Step
from agent.security.taint.taint import UNTRUSTED
from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.types import Context, ToolCall
from gateway.core.messages import InboundMessage, MessageOptions
from gateway.core.turn_choice import SKILL_CHOICES
from gateway.resources import Timing
from gateway.sessions.skill_offer import MIN_CALLS
from gateway.store.repositories.conversations import sessions
from tests.agent.props import call, calls
from tests.gateway.access.approvals import Asking
from tests.gateway.parts import (
    Parts,
    accept_messages,
    answer_to,
    chat_message,
    console_message,
)
from tests.gateway.parts import running as running_parts

OFFER = "`/learn yes`"
AT_ONCE = Timing(skill_offer_after_s=0)


def long_turn(text: str = "Released.", count: int = MIN_CALLS) -> list[Step]:
    """Return the replies of a turn with this many tool calls."""
    return [calls(*(call("glob", f"c{n}", pattern=f"{n}.txt") for n in range(count))), text]


def running(folder: Path, replies: list[Step] | ScriptedProvider, **more: Any) -> Any:
    return running_parts(folder, replies, **{"owner": "chat:7", "timing": AT_ONCE, **more})


def with_skills(parts: Parts, folder: Path) -> None:
    parts.agent.skills = SkillCatalog(SkillPaths(folder / "user", folder / "own", parts.workspace))


async def session_of(parts: Parts, message: InboundMessage) -> str:
    session = await parts.database.transact(sessions.bound_session, message.session_key)
    assert session is not None
    return session


async def offered(parts: Parts, message: InboundMessage) -> list[str]:
    """Return the keys of the choices that the conversation of this message's lane offers."""
    session = await session_of(parts, message)
    return [choice.key for choice in await parts.service.turn_choices(session)]


async def test_long_turn_ends_with_the_offer(tmp_path: Path) -> None:
    async with running(tmp_path, long_turn()) as parts:
        with_skills(parts, tmp_path)
        answer = await answer_to(parts, chat_message("release it"))
        assert [choice.text for choice in SKILL_CHOICES if choice.text in answer] == [
            "/learn yes",
            "/learn no",
            "/learn never",
        ]
        assert await offered(parts, chat_message("")) == ["y", "n", "d"]


@pytest.mark.parametrize(
    "replies",
    [
        long_turn(count=MIN_CALLS - 1),
        long_turn("Shall I publish it?"),
        long_turn("<promise>BLOCKED:no key</promise>"),
        long_turn()[:1],
        [calls(ToolCall("s1", "skill", {"name": "x"}, '{"name": "x"}')), *long_turn()],
    ],
    ids=["short", "question", "blocked", "failed", "after a skill"],
)
async def test_other_turns_offer_nothing(tmp_path: Path, replies: list[Step]) -> None:
    async with running(tmp_path, replies) as parts:
        with_skills(parts, tmp_path)
        assert OFFER not in await answer_to(parts, chat_message("release it"))
        assert await offered(parts, chat_message("")) == []


async def test_quick_turn_offers_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, long_turn(), timing=Timing()) as parts:
        with_skills(parts, tmp_path)
        assert OFFER not in await answer_to(parts, chat_message("release it"))


@pytest.mark.parametrize(
    "message",
    [
        chat_message("/some-command"),
        chat_message("release it", private=False),
        chat_message("release it", forwarded=True),
    ],
    ids=["command", "group", "forwarded"],
)
async def test_only_own_words_of_the_owner_in_a_private_chat_lead_to_an_offer(
    tmp_path: Path, message: InboundMessage
) -> None:
    async with running(tmp_path, long_turn()) as parts:
        with_skills(parts, tmp_path)
        assert OFFER not in await answer_to(parts, message)


async def test_other_people_get_no_offer(tmp_path: Path) -> None:
    async with running(tmp_path, long_turn(), owner="chat:1") as parts:
        with_skills(parts, tmp_path)
        assert OFFER not in await answer_to(parts, chat_message("release it"))


async def test_unattended_run_offers_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, long_turn()) as parts:
        with_skills(parts, tmp_path)
        message = console_message("release it", options=MessageOptions(unattended=True))
        await parts.bus.submit(message)
        await parts.until_answered(message)
        assert await offered(parts, message) == []


async def test_untrusted_text_in_the_conversation_prevents_the_offer(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello.", *long_turn()]) as parts:
        with_skills(parts, tmp_path)
        await answer_to(parts, chat_message("hello"))
        session = await session_of(parts, chat_message(""))
        await parts.database.transact(sessions.add_taint, session, UNTRUSTED)
        assert OFFER not in await answer_to(parts, chat_message("release it"))
        assert await offered(parts, chat_message("")) == []


async def test_conversation_gets_one_offer(tmp_path: Path) -> None:
    async with running(tmp_path, [*long_turn(), "Welcome.", *long_turn()]) as parts:
        with_skills(parts, tmp_path)
        assert OFFER in await answer_to(parts, chat_message("release it"))
        await answer_to(parts, chat_message("thanks"))
        assert await offered(parts, chat_message("")) == []
        assert OFFER not in await answer_to(parts, chat_message("release it again"))


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "auto"])
async def test_saved_procedure_is_shown_as_a_diff_in_every_mode(tmp_path: Path, mode: str) -> None:
    path = "skills/release/SKILL.md"
    text = "---\nname: release\ndescription: Releases.\n---\nRun `make release`.\n"
    wrote = calls(call("write_file", path=path, content=text))
    model = ScriptedProvider([*long_turn(), wrote, "Call it with /release."])
    async with running(tmp_path, model, platform=Asking()) as parts:
        with_skills(parts, tmp_path)
        await answer_to(parts, chat_message(f"/mode {mode}"))
        await answer_to(parts, chat_message("release it"))
        keep = chat_message("/learn yes")
        await accept_messages(parts, keep)
        await parts.until_stored("approval", state="open")
        [open_approval] = await parts.service.list_approvals()
        assert "+Run `make release`." in (open_approval.request.diff or "")
        assert not (parts.workspace / path).exists()
        assert await parts.service.answer_approval(open_approval.nonce, "once", "cli:0")
        await parts.until_answered(replace(keep, event_id=f"{keep.event_id}:learn"))
        assert (parts.workspace / path).read_text() == text
    last = [message for message in model.requests[-1].messages if message.role == "user"][-1]
    assert last.text == "/skills new"
    contexts = [part.text for part in last.content if isinstance(part, Context)]
    assert any("into a skill" in context for context in contexts)


async def test_second_choice_finds_no_offer(tmp_path: Path) -> None:
    async with running(tmp_path, long_turn()) as parts:
        with_skills(parts, tmp_path)
        await answer_to(parts, chat_message("release it"))
        assert "No skill" in await answer_to(parts, chat_message("/learn no"))
        assert await offered(parts, chat_message("")) == []
        assert "Nothing is offered" in await answer_to(parts, chat_message("/learn yes"))


async def test_refused_offer_is_not_repeated_in_other_conversations(tmp_path: Path) -> None:
    replies = [*long_turn(), *long_turn(), *long_turn()]
    async with running(tmp_path, replies) as parts:
        with_skills(parts, tmp_path)
        await answer_to(parts, chat_message("release it"))
        assert "/learn ask" in await answer_to(parts, chat_message("/learn never"))
        await answer_to(parts, chat_message("/new"))
        assert OFFER not in await answer_to(parts, chat_message("release it"))
        await answer_to(parts, chat_message("/learn ask"))
        assert OFFER in await answer_to(parts, chat_message("release it"))


async def test_others_cannot_change_the_offer(tmp_path: Path) -> None:
    async with running(tmp_path, [], owner="chat:1") as parts:
        assert "Only the owner" in await answer_to(parts, chat_message("/learn never"))


async def test_skill_from_an_untrusted_conversation_is_announced_as_untrusted(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(["Hello.", "Nothing was done."])
    async with running(tmp_path, model) as parts:
        with_skills(parts, tmp_path)
        await answer_to(parts, chat_message("hello"))
        session = await session_of(parts, chat_message(""))
        await parts.database.transact(sessions.add_taint, session, UNTRUSTED)
        await answer_to(parts, chat_message("/skills new"))
    assert "has read untrusted text" in str(model.requests[-1].messages[-1].content)
