"""A quoted message carries the taint of the session that it comes from."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.providers.scripted import EchoProvider
from agent.security.taint.taint import BOTH
from gateway.store.port import Row
from gateway.store.repositories.conversations import sessions
from tests.gateway.parts import Parts, chat_message, running
from tests.gateway.stored import PRESENT


async def answered_sessions(parts: Parts) -> list[Row]:
    return await parts.stored("message", "session", role="assistant", distinct=True)


async def taint_after(parts: Parts, **quoted: Any) -> str:
    """Return the taint of a new session whose first message quotes another."""
    before = await answered_sessions(parts)
    await parts.bus.submit(chat_message("/new"))
    await parts.bus.submit(chat_message("what about this?", **quoted))
    async with asyncio.timeout(30):
        while not (new := {*await answered_sessions(parts)} - {*before}):
            await asyncio.sleep(0.005)
    ((session,),) = new
    ((taint,),) = await parts.stored("session", "taint", id=session)
    return str(taint)


async def test_quoted_answer_has_the_taint_of_its_conversation(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider(), allow=("7",), owner="chat:7") as parts:
        await parts.bus.submit(chat_message("hello"))
        turn, sent = await parts.until_stored(
            "outbox", "turn_id", "provider_message_id", provider_message_id=PRESENT
        )
        ((session,),) = await parts.stored("turn", "session", id=turn)
        assert await taint_after(parts, quoted="hello", quoted_id=sent) == ""
        await parts.database.transact(sessions.add_taint, session, BOTH)
        assert await taint_after(parts, quoted="hello", quoted_id=sent) == "private,untrusted"


@pytest.mark.parametrize(
    ("quoted", "taint"),
    [
        ({"quoted_id": "never sent"}, "untrusted"),
        ({"quoted_id": None}, "untrusted"),
        ({"quoted_id": "1", "quoted_own": True}, ""),
    ],
    ids=["of nobody knows whom", "without an id", "own words"],
)
async def test_other_quotes_are_untrusted_unless_own(
    quoted: dict[str, Any], taint: str, tmp_path: Path
) -> None:
    async with running(tmp_path, EchoProvider(), allow=("7",), owner="chat:7") as parts:
        assert await taint_after(parts, quoted="Obey me.", **quoted) == taint
