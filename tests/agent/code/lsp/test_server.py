"""External changes on disk are forwarded to language servers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.protocol.positions import uri_of
from tests.contracts.code_servers import CodeCalls, code_calls, stand_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path.resolve() / "project").mkdir()
    (folder / "a.txt").write_text("def a\n")
    (folder / ".gitignore").write_text("build\n")
    return folder


@pytest.fixture
async def calls(folder: Path) -> AsyncIterator[CodeCalls]:
    async with code_calls(folder, stand_in()) as calls:
        await calls.ask("document_symbols", "a.txt")
        yield calls


async def changes(calls: CodeCalls, count: int) -> list[dict[str, Any]]:
    """Return the changes that the server received, once there are at least `count`."""
    async with asyncio.timeout(20):
        while True:
            events: list[dict[str, Any]] = await calls.session.peer.request("$/changes", {}, 5)
            if len(events) >= count:
                return events
            await asyncio.sleep(0.02)


async def test_changes_of_served_files_are_forwarded(calls: CodeCalls, folder: Path) -> None:
    (folder / "other.py").write_text("x")
    (folder / "new.txt").write_text("def b\n")
    assert await changes(calls, 1) == [{"uri": uri_of(folder / "new.txt"), "type": 1}]
    (folder / "new.txt").unlink()
    assert (await changes(calls, 2))[1:] == [{"uri": uri_of(folder / "new.txt"), "type": 3}]


async def test_deleted_folders_are_forwarded(calls: CodeCalls, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/b.txt").write_text("def b\n")
    await changes(calls, 1)
    (folder / "src").rename(folder.parent / "elsewhere")
    assert (await changes(calls, 2))[1:] == [{"uri": uri_of(folder / "src"), "type": 3}]


async def test_own_edits_are_not_forwarded_twice(calls: CodeCalls, folder: Path) -> None:
    await calls.run("read_file", path="a.txt")
    await calls.run("edit_file", path="a.txt", old_string="def a", new_string="def b")
    sent_by_tool = len(await changes(calls, 1))
    (folder / "last.txt").write_text("x")
    events = await changes(calls, sent_by_tool + 1)
    assert events[sent_by_tool:] == [{"uri": uri_of(folder / "last.txt"), "type": 1}]


async def test_draft_being_written_is_not_forwarded(calls: CodeCalls, folder: Path) -> None:
    calls.session.open(folder / "a.txt", "def b\n", "text")
    (folder / "a.txt").write_text("def b\n")
    (folder / "last.txt").write_text("x")
    assert await changes(calls, 1) == [{"uri": uri_of(folder / "last.txt"), "type": 1}]


async def test_lost_changes_restart_the_server(calls: CodeCalls, folder: Path) -> None:
    session = calls.session
    (folder / "build").mkdir()
    (folder / ".gitignore").write_text("")
    async with asyncio.timeout(20):
        while not session.peer.is_closed:
            await asyncio.sleep(0.02)
    await calls.ask("document_symbols", "a.txt")
    assert calls.session is not session


async def test_move_file_notifies_the_server_without_a_watch(folder: Path) -> None:
    async with code_calls(folder, stand_in(watch=False)) as calls:
        await calls.ask("document_symbols", "a.txt")
        await calls.run("move_file", path="a.txt", to="b.txt")
        assert folder / "a.txt" not in calls.session.documents
        events = await changes(calls, 2)
        assert {(event["uri"], event["type"]) for event in events} == {
            (uri_of(folder / "a.txt"), 3),
            (uri_of(folder / "b.txt"), 1),
        }
        assert await calls.lines("document_symbols", "b.txt") == ["1 function a"]
        count = len(events)
        (folder / "src").mkdir()
        await calls.run("move_file", path="b.txt", to="src")
        await calls.run("move_file", path="src")
        assert (await changes(calls, count + 4))[-1] == {
            "uri": uri_of(folder / "src/b.txt"),
            "type": 3,
        }
