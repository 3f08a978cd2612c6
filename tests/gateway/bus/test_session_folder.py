"""Messages without a folder run in the folder of their session."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.core.messages import InboundMessage, MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.store.repositories.conversations import session_folders
from tests.gateway.parts import Parts, chat_message, console_message, opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / "orchard.txt").write_text("pears")
    return folder


async def answer(parts: Parts, message: InboundMessage) -> None:
    bus = asyncio.create_task(parts.bus.run())
    await parts.bus.submit(message)
    await parts.until_answered(message)
    bus.cancel()
    await asyncio.wait({bus})


async def session_in(parts: Parts, folder: Path) -> str:
    """Begin a session of the console in the folder."""
    await answer(parts, console_message("hi", options={"cwd": str(folder)}))
    ((session,),) = await parts.stored("session", "id")
    return str(session)


async def stored_folders(parts: Parts) -> list[SessionFolder | None]:
    payloads = await parts.stored("inbox", "payload", order="seq")
    return [InboundMessage.from_json(payload).options.folder for (payload,) in payloads]


async def test_message_from_the_page_runs_in_the_folder_of_its_session(
    tmp_path: Path, project: Path
) -> None:
    async with opened(tmp_path, ["one", "two"]) as parts:
        session = await session_in(parts, project)
        bus = asyncio.create_task(parts.bus.run())
        await parts.service.send_message(session, "and now", "e1")
        await parts.until_answered(console_message("", f"session-{session}", event_id="e1"))
        bus.cancel()
        await asyncio.wait({bus})
        assert await stored_folders(parts) == [SessionFolder(str(project))] * 2
        messages = await parts.service.load_messages(session)
        assert "orchard.txt" in str(messages[2])


async def test_folder_named_by_a_message_becomes_the_session_folder(
    tmp_path: Path, project: Path
) -> None:
    async with opened(tmp_path, ["one", "two"]) as parts:
        session = await session_in(parts, project)
        await answer(parts, console_message("again", options={"cwd": str(tmp_path)}))
        folder = await parts.database.transact(session_folders.of_session, session)
        assert folder == SessionFolder(str(tmp_path))


async def test_chat_message_runs_in_the_folder_of_its_chat(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path, ["one", "two"]) as parts:
        session = await session_in(parts, project)
        await parts.service.bind_session(chat_message("").session_key, session)
        await answer(parts, chat_message("hi"))
        assert await stored_folders(parts) == [SessionFolder(str(project)), None]


async def test_full_access_stays_in_its_own_folder(tmp_path: Path, project: Path) -> None:
    async with opened(tmp_path, ["one", "two"]) as parts:
        await session_in(parts, project)
        message = console_message("again")
        options = replace(MessageOptions(), full_access="token")
        await answer(parts, replace(message, options=options))
        assert await stored_folders(parts) == [SessionFolder(str(project)), None]
