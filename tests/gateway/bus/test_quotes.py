"""A quoted message brings along what the conversation that it is from has taken in."""

from pathlib import Path
from typing import Any

import pytest

from agent.providers.scripted import EchoProvider
from agent.security.taint.taint import BOTH
from gateway.store.repositories import sessions
from tests.gateway.parts import Parts, running, said


async def taint_after(parts: Parts, **quoted: Any) -> str:
    """What a new conversation has taken in that begins with a message which quotes."""
    answered = (
        "EXISTS (SELECT 1 FROM message WHERE message.session = session.id AND role = 'assistant')"
    )
    ((before,),) = await parts.rows(f"SELECT count(*) FROM session WHERE {answered}")
    await parts.bus.submit(said("/new"))
    await parts.bus.submit(said("what about this?", **quoted))
    (taint,) = await parts.until(
        f"SELECT taint FROM session WHERE {answered} AND ? < (SELECT count(*) FROM session"
        f" WHERE {answered}) ORDER BY id DESC",
        before,
    )
    return str(taint)


async def test_an_answer_of_ours_brings_its_conversations_taint(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider(), allow=("7",), owner="chat:7") as parts:
        await parts.bus.submit(said("hello"))
        session, sent = await parts.until(
            "SELECT t.session, o.provider_msg FROM outbox o JOIN turn t ON t.id = o.turn_id"
            " WHERE o.provider_msg IS NOT NULL"
        )
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
async def test_other_words_are_a_strangers_but_ones_own(
    quoted: dict[str, Any], taint: str, tmp_path: Path
) -> None:
    async with running(tmp_path, EchoProvider(), allow=("7",), owner="chat:7") as parts:
        assert await taint_after(parts, quoted="Obey me.", **quoted) == taint
