"""Language servers hear of what others change on the disk."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.code.lsp.protocol.uris import uri_of
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
    """What the server was told, once there is so much of it."""
    async with asyncio.timeout(20):
        while True:
            heard: list[dict[str, Any]] = await calls.session.peer.request("$/changes", {}, 5)
            if len(heard) >= count:
                return heard
            await asyncio.sleep(0.02)


async def test_files_of_its_kind_are_told(calls: CodeCalls, folder: Path) -> None:
    (folder / "other.py").write_text("x")
    (folder / "new.txt").write_text("def b\n")
    assert await changes(calls, 1) == [{"uri": uri_of(folder / "new.txt"), "type": 1}]
    (folder / "new.txt").unlink()
    assert (await changes(calls, 2))[1:] == [{"uri": uri_of(folder / "new.txt"), "type": 3}]


async def test_folders_that_go_are_told(calls: CodeCalls, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/b.txt").write_text("def b\n")
    await changes(calls, 1)
    (folder / "src").rename(folder.parent / "elsewhere")
    assert (await changes(calls, 2))[1:] == [{"uri": uri_of(folder / "src"), "type": 3}]


async def test_edits_of_kore_are_not_told_again(calls: CodeCalls, folder: Path) -> None:
    await calls.run("read_file", path="a.txt")
    await calls.run("edit_file", path="a.txt", old_string="def a", new_string="def b")
    told_by_tool = len(await changes(calls, 1))
    (folder / "last.txt").write_text("x")
    heard = await changes(calls, told_by_tool + 1)
    assert heard[told_by_tool:] == [{"uri": uri_of(folder / "last.txt"), "type": 1}]


async def test_a_server_that_cannot_know_all_is_started_anew(
    calls: CodeCalls, folder: Path
) -> None:
    session = calls.session
    (folder / "build").mkdir()
    (folder / ".gitignore").write_text("")
    async with asyncio.timeout(20):
        while not session.peer.is_closed:
            await asyncio.sleep(0.02)
    await calls.ask("document_symbols", "a.txt")
    assert calls.session is not session


async def test_what_move_file_does_is_told_without_a_watch(folder: Path) -> None:
    async with code_calls(folder, stand_in(watch=False)) as calls:
        await calls.ask("document_symbols", "a.txt")
        await calls.run("move_file", path="a.txt", to="b.txt")
        assert folder / "a.txt" not in calls.session.documents
        heard = await changes(calls, 2)
        assert {(one["uri"], one["type"]) for one in heard} == {
            (uri_of(folder / "a.txt"), 3),
            (uri_of(folder / "b.txt"), 1),
        }
        assert await calls.lines("document_symbols", "b.txt") == ["1 function a"]
        told = len(heard)
        (folder / "src").mkdir()
        await calls.run("move_file", path="b.txt", to="src")
        await calls.run("move_file", path="src")
        assert (await changes(calls, told + 4))[-1] == {
            "uri": uri_of(folder / "src/b.txt"),
            "type": 3,
        }
