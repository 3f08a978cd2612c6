"""Folders outside the workspace that the owner allows: for a session or always."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.approvals import Answer, FolderAccess
from agent.types import Message, ToolCall, assistant
from gateway.core.messages import Sender
from gateway.store.repositories.access import grants
from tests.gateway.access.approvals import OWNER, Asking, question
from tests.gateway.parts import (
    Parts,
    accept_messages,
    answer_to,
    chat_message,
    console_message,
    load_history,
    running,
    tool_call,
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "a.txt").write_text("old\n")
    return folder


def read(outside: Path, id_: str) -> ToolCall:
    return tool_call(id_, "read_file", path=str(outside / "a.txt"))


def edit(outside: Path, id_: str) -> ToolCall:
    path = str(outside / "a.txt")
    return tool_call(id_, "edit_file", path=path, old_string="old\n", new_string="new\n")


@asynccontextmanager
async def owned(folder: Path, *steps: Message | str, **more: Any) -> AsyncIterator[Parts]:
    async with running(folder, list(steps), owner=OWNER, platform=Asking(), **more) as parts:
        yield parts


async def answer(parts: Parts, answer: Answer, text: str) -> FolderAccess | None:
    """Answer the open question, and wait for the turn's answer."""
    prompt = await question(parts)
    assert await parts.service.answer_approval(prompt.nonce, answer, "cli:0")
    await parts.platform.until(lambda: text in parts.platform.texts("1"))
    return prompt.request.folder_access


async def results(parts: Parts) -> list[str]:
    return [message.text for message in await load_history(parts) if message.role == "tool"]


async def test_answer_for_a_session_covers_its_later_calls(tmp_path: Path, outside: Path) -> None:
    model = [
        assistant("", (read(outside, "1"),)),
        "one",
        assistant("", (read(outside, "2"),)),
        "two",
    ]
    async with owned(tmp_path, *model) as parts:
        await accept_messages(parts, chat_message("go"))
        assert await answer(parts, "session", "one") == FolderAccess(outside)
        await accept_messages(parts, chat_message("again"))
        await parts.platform.until(lambda: "two" in parts.platform.texts("1"))
        assert [("old" in text) for text in await results(parts)] == [True, True]
        (grant,) = await parts.service.list_grants()
        assert grant["title"] == f"read files in {outside}"
        assert grant["session"]


async def test_write_needs_one_approval_and_shows_its_diff(tmp_path: Path, outside: Path) -> None:
    model = [assistant("", (read(outside, "1"), edit(outside, "2"))), "one"]
    async with owned(tmp_path, *model) as parts:
        await accept_messages(parts, chat_message("go"))
        first = await question(parts)
        assert await parts.service.answer_approval(first.nonce, "session", "cli:0")
        await parts.until_stored("approval", state="open")
        second = await question(parts)
        assert second.request.folder_access == FolderAccess(outside, is_writable=True)
        assert second.request.diff is not None
        assert await parts.service.answer_approval(second.nonce, "session", "cli:0")
        await parts.platform.until(lambda: "one" in parts.platform.texts("1"))
        assert (outside / "a.txt").read_text() == "new\n"
        assert await parts.count("approval") == 2


async def test_standing_answer_covers_other_sessions_until_it_is_revoked(
    tmp_path: Path, outside: Path
) -> None:
    model = [
        *(assistant("", (read(outside, "1"),)), "one"),
        *(assistant("", (read(outside, "2"),)), "two"),
        *(assistant("", (read(outside, "3"),)), "three"),
    ]
    async with owned(tmp_path, *model) as parts:
        await accept_messages(parts, chat_message("go"))
        await answer(parts, "always", "one")
        await accept_messages(parts, chat_message("/new"))
        await accept_messages(parts, chat_message("again"))
        await parts.platform.until(lambda: "two" in parts.platform.texts("1"))
        (grant,) = await parts.service.list_grants()
        await parts.service.revoke_grants(grant["id"])
        await accept_messages(parts, chat_message("once more"))
        assert (await question(parts)).request.folder_access == FolderAccess(outside)


async def test_changed_grant_allows_nothing(tmp_path: Path, outside: Path) -> None:
    async with owned(tmp_path, assistant("", (read(outside, "1"),)), "one") as parts:
        await accept_messages(parts, chat_message("go"))
        await answer(parts, "always", "one")
        workspace = tmp_path / "workspace"
        find = grants.folders
        assert await parts.database.transact(find, OWNER, (), workspace) == [FolderAccess(outside)]
        await parts.change("permission_grant", {"title": "read files in /"}, principal=OWNER)
        assert await parts.database.transact(find, OWNER, (), workspace) == []


async def test_grant_applies_to_its_workspace(tmp_path: Path, outside: Path) -> None:
    async with owned(tmp_path, assistant("", (read(outside, "1"),)), "one") as parts:
        await accept_messages(parts, chat_message("go"))
        await answer(parts, "always", "one")
        elsewhere = await parts.database.transact(grants.folders, OWNER, (), tmp_path / "x")
        assert elsewhere == []
        others = await parts.database.transact(grants.folders, "chat:8", (), tmp_path / "workspace")
        assert others == []


async def test_other_people_are_refused_without_a_question(tmp_path: Path, outside: Path) -> None:
    model = [assistant("", (read(outside, "1"),)), "one"]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go", "8", sender=Sender("8", "Bob")))
        await parts.platform.until(lambda: "one" in parts.platform.texts("8"))
        assert await parts.count("approval") == 0


async def test_command_adds_a_folder_and_lists_it(tmp_path: Path, outside: Path) -> None:
    model = [assistant("", (read(outside, "1"),)), "one"]
    async with owned(tmp_path, *model) as parts:
        assert "No folders" in await answer_to(parts, chat_message("/add-dir"))
        assert str(outside) in await answer_to(parts, chat_message(f"/add_dir {outside}"))
        listing = await answer_to(parts, chat_message("/add-dir"))
        assert f"`{outside}`: read and change" in listing
        await accept_messages(parts, chat_message("go"))
        await parts.platform.until(lambda: "one" in parts.platform.texts("1"))
        assert await parts.count("approval") == 0
        assert "old" in (await results(parts))[0]
        (message,) = [m for m in await load_history(parts) if m.role == "user"]
        assert f"{outside} (read and change)" in str(message.content)


@pytest.mark.parametrize("name", ["/", "/no/such/folder", ".ssh", "x\0y"])
async def test_command_adds_no_hidden_or_missing_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "workspace" / ".ssh").mkdir(parents=True)
    async with owned(tmp_path) as parts:
        assert "⚠️" in await answer_to(parts, chat_message(f"/add-dir {name}"))
        assert await parts.service.list_grants() == []


async def test_command_is_only_for_the_owner(tmp_path: Path, outside: Path) -> None:
    async with owned(tmp_path) as parts:
        stranger = chat_message(f"/add-dir {outside}", "8", sender=Sender("8", "Bob"))
        assert "Only the owner" in await answer_to(parts, stranger)
        in_group = chat_message(f"/add-dir {outside}", private=False)
        assert "Only the owner" in await answer_to(parts, in_group)
        assert await parts.service.list_grants() == []


async def test_command_line_adds_folders_to_the_session(tmp_path: Path, outside: Path) -> None:
    model = [assistant("", (read(outside, "1"),)), "one"]
    async with owned(tmp_path, *model) as parts:
        options = {"add_dirs": [str(outside), "/no/such/folder"], "unattended": True}
        await parts.bus.submit(console_message("go", options=options))
        await parts.until_stored("turn", state="done")
        assert "old" in (await results(parts))[0]
        (grant,) = await parts.service.list_grants()
        assert grant["title"] == f"read and change files in {outside}"
        assert grant["session"]


async def test_options_of_other_channels_add_nothing(tmp_path: Path, outside: Path) -> None:
    async with owned(tmp_path, "one") as parts:
        await accept_messages(parts, chat_message("go", options={"add_dirs": [str(outside)]}))
        await parts.platform.until(lambda: "one" in parts.platform.texts("1"))
        assert await parts.service.list_grants() == []


async def test_change_in_an_added_folder_is_undone(tmp_path: Path, outside: Path) -> None:
    model = [assistant("", (read(outside, "1"), edit(outside, "2"))), "one"]
    async with owned(tmp_path, *model, modes={"chat": "accept-edits"}) as parts:
        await answer_to(parts, chat_message(f"/add-dir {outside}"))
        await accept_messages(parts, chat_message("go"))
        await parts.platform.until(lambda: "one" in parts.platform.texts("1"))
        assert (outside / "a.txt").read_text() == "new\n"
        await answer_to(parts, chat_message("/undo"))
        assert (outside / "a.txt").read_text() == "old\n"
