"""`/sessions`, `/resume`, `/fork` and `/rename`: access to other people's sessions and chats."""

from pathlib import Path
from typing import Any

from agent.providers.scripted import EchoProvider
from gateway.core.channel_events import Batch
from gateway.core.messages import Sender
from gateway.store.repositories.execution import turns
from tests.gateway.parts import Parts, chat_message, console_message, running
from tests.gateway.stored import like


async def send(parts: Parts, text: str, chat: str = "1", **more: Any) -> str:
    """Return the newest message of the chat once it has answered."""
    before = len(parts.platform.texts(chat))
    await parts.bus.accept("chat", "bot", Batch([chat_message(text, chat, **more)]))
    return (await parts.platform.answers(chat, before + 1))[-1]


async def session(parts: Parts, text: str) -> str:
    row = await parts.until_stored("message", "session", content=like(f"%{text}%"))
    return str(row[0])


async def test_earlier_conversation_is_listed_and_resumed(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        assert "no conversations" in await send(parts, "/sessions")
        await send(parts, "about *apples*")
        await send(parts, "/new")
        await send(parts, "about pears")
        listed = await send(parts, "/sessions")
        first, second = await session(parts, "apples"), await session(parts, "pears")
        assert f"1. `{second}` about pears" in listed
        assert f"2. `{first}` about \\*apples\\*" in listed
        assert f"Back in conversation `{first}`" in await send(parts, "/resume 2")
        await send(parts, "once more")
        assert await session(parts, "once more") == first
        assert f"Back in conversation `{second}`" in await send(parts, f"/resume {second}")
        assert "no conversation number 9" in await send(parts, "/resume 9")


async def test_conversations_of_others_cannot_be_seen_or_resumed(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider(), owner="chat:1") as parts:
        await send(parts, "a secret of Ann", "1")
        hers = await session(parts, "secret")
        bob = {"sender": Sender("8", "Bob")}
        assert "secret" not in await send(parts, "/sessions", "2", **bob)
        assert "None of your conversations match" in await send(
            parts, f"/resume {hers}", "2", **bob
        )
        assert "Nothing found" in await send(parts, "/sessions secret", "2", **bob)
        # In a group, the owner may not find or open that conversation either.
        assert "secret" not in await send(parts, "/sessions", "-5", private=False)
        assert "None of your conversations match" in await send(
            parts, f"/resume {hers}", "-5", private=False
        )
        answer = await send(parts, "/sessions secret")
        assert f"`{hers}`" in answer
        assert "a secret of Ann" in answer


async def test_owner_resumes_a_terminal_conversation_in_private(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, EchoProvider(), owner="chat:7") as parts:
        await parts.service.submit(console_message("from the terminal"))
        there = await session(parts, "from the terminal")
        assert there in await send(parts, "/sessions")
        assert there not in await send(parts, "/sessions", "-5", private=False)
        assert "Back in conversation" in await send(parts, f"/resume {there}")


async def test_fork_continues_in_a_copy(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        assert "Nothing to fork: this conversation is empty" in await send(parts, "/fork")
        await send(parts, "one")
        old = await session(parts, "one")
        assert f"`/resume {old}` goes back" in await send(parts, "/fork")
        await send(parts, "two")
        new = await session(parts, '"two"')
        assert new != old
        count = await parts.count("message", session=new)
        assert count == 4
        assert f"`{new}` one (2)" in await send(parts, "/sessions")
        # A copy is named after its original.
        assert "is called" in await send(parts, "/rename")
        await send(parts, "/rename the plan")
        assert f"`{new}` the plan" in await send(parts, "/sessions")
        assert "“the plan”" in await send(parts, "/rename")
        assert "Automatic name restored" in await send(parts, "/rename auto")
        assert f"`{new}` the plan" not in await send(parts, "/sessions")


async def test_empty_conversation_can_be_named(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        assert "What should" in await send(parts, "/rename")
        assert "“Garden”" in await send(parts, "/rename Garden")
        await send(parts, "hello")
        assert f"`{await session(parts, 'hello')}` Garden" in await send(parts, "/sessions")


async def test_paused_conversation_is_reported_once_and_can_be_reopened(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await send(parts, "one")
        here = await session(parts, "one")
        await parts.service.set_session_status(here, "paused")
        assert "paused" in await send(parts, "two")
        await parts.bus.accept("chat", "bot", Batch([chat_message("three")]))
        assert "Continuing conversation" in await send(parts, "/resume")
        answers = await parts.platform.answers("1", 5)
        assert [text for text in answers if "paused" in text] == [answers[1]]
        assert answers[3].endswith("two")
        assert answers[4].endswith("three")


async def test_external_reopening_wakes_waiting_chats(tmp_path: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await send(parts, "one")
        here = await session(parts, "one")
        await parts.service.set_session_status(here, "paused")
        await send(parts, "two")
        await parts.service.set_session_status(here, "open")
        assert (await parts.platform.answers("1", 3))[-1].endswith("two")


async def test_repeated_new_command_starts_one_conversation(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await send(parts, "hello")
        first = await send(parts, "/new")
        ((seq,),) = await parts.stored("inbox", "max(seq)")
        before = len(parts.platform.texts("1"))
        parts.bus.wake(await parts.database.transact(turns.replay, seq))
        again = (await parts.platform.answers("1", before + 1))[-1]
        assert again == first
        assert await parts.count("session") == 2
        assert await send(parts, "/new") != first
        assert await parts.count("session") == 3
