"""Requests of turns to an editor, and their timeouts."""

import asyncio
from pathlib import Path

import pytest

from agent.errors import EditorRefused
from agent.settings import ToolSettings
from gateway.core.records import EditorRequest
from gateway.sessions.editor_hub import EditorHub, EditorSilent, SessionServers

NO_SERVERS = SessionServers(ToolSettings, lambda values: None, lambda: None)
LANE = "cli:local:editor-1"
FOLDER = Path("/project")
FILE = FOLDER / "a.py"


async def test_read_and_write_are_answered() -> None:
    hub = EditorHub(NO_SERVERS)
    files = hub.files_of(LANE)
    assert await files.read_text(FILE) is None
    assert not await files.write_text(FILE, "x")
    async with hub.serve(LANE, FOLDER, True, True) as requests, asyncio.TaskGroup() as group:
        reading = group.create_task(files.read_text(FILE))
        request = await anext(requests)
        assert (request.action, request.path, request.text) == ("read", str(FILE), "")
        assert hub.answer(request.id, "unsaved")
        assert await reading == "unsaved"
        # A second answer is rejected.
        assert not hub.answer(request.id, "again")
        writing = group.create_task(files.write_text(FILE, "new"))
        request = await anext(requests)
        assert (request.action, request.text) == ("write", "new")
        assert hub.answer(request.id, "")
        assert await writing
    assert await files.read_text(FILE) is None


async def test_only_supported_requests_reach_the_editor_of_the_lane() -> None:
    hub = EditorHub(NO_SERVERS)
    async with hub.serve(LANE, FOLDER, False, True):
        assert await hub.files_of(LANE).read_text(FILE) is None
        assert await hub.files_of("cli:local:editor-2").read_text(FILE) is None
        assert not await hub.files_of(LANE).write_text(FILE, "x" * 1_000_001)


async def test_silent_editor_is_not_asked_again() -> None:
    hub = EditorHub(NO_SERVERS, read_s=0.01)
    files = hub.files_of(LANE)
    async with hub.serve(LANE, FOLDER, True, True) as requests:
        with pytest.raises(EditorSilent):
            await files.read_text(FILE)
        request = await anext(requests)
        assert not hub.answer(request.id, "late")
        with pytest.raises(EditorSilent):
            await files.write_text(FILE, "x")
    # The next prompt asks the editor again.
    async with hub.serve(LANE, FOLDER, True, True) as requests, asyncio.TaskGroup() as group:
        writing = group.create_task(files.write_text(FILE, "x"))
        assert hub.answer((await anext(requests)).id, "")
        assert await writing


@pytest.mark.parametrize("text", [None, "nul \0", "\ud800", "é" * 500_001])
async def test_invalid_answer_is_treated_as_no_answer(text: str | None) -> None:
    hub = EditorHub(NO_SERVERS)
    async with hub.serve(LANE, FOLDER, True, True) as requests, asyncio.TaskGroup() as group:
        reading = group.create_task(_error_of(hub))
        assert hub.answer((await anext(requests)).id, text)
        assert isinstance(await reading, EditorSilent)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_only_an_error_of_the_editor_refuses_a_write(is_refused: bool) -> None:
    hub = EditorHub(NO_SERVERS)
    async with hub.serve(LANE, FOLDER, True, True) as requests, asyncio.TaskGroup() as group:
        writing = group.create_task(_error_of_writing(hub))
        assert hub.answer((await anext(requests)).id, None, is_refused)
        assert isinstance(await writing, EditorRefused if is_refused else EditorSilent)


async def test_editor_is_asked_only_about_files_in_its_folder() -> None:
    hub = EditorHub(NO_SERVERS)
    files = hub.files_of(LANE)
    async with hub.serve(LANE, FOLDER / "app", True, True):
        assert await files.read_text(FILE) is None
        assert not await files.write_text(FILE, "x")
        assert not await files.write_text(FOLDER / "application" / "b.py", "x")


async def test_disconnected_editor_ends_the_wait() -> None:
    hub = EditorHub(NO_SERVERS)
    async with asyncio.TaskGroup() as group:
        async with hub.serve(LANE, FOLDER, True, True) as requests:
            reading = group.create_task(_error_of(hub))
            request: EditorRequest = await anext(requests)
            assert request.path == str(FILE)
        assert isinstance(await reading, EditorSilent)


async def test_number_of_pending_requests_is_limited() -> None:
    hub = EditorHub(NO_SERVERS)
    async with hub.serve(LANE, FOLDER, True, True), asyncio.TaskGroup() as group:
        waiting = [group.create_task(_error_of(hub)) for _ in range(17)]
        assert isinstance(await waiting[-1], EditorSilent)
        for task in waiting[:-1]:
            task.cancel()


async def _error_of(hub: EditorHub) -> EditorSilent | None:
    try:
        await hub.files_of(LANE).read_text(FILE)
    except EditorSilent as exc:
        return exc
    return None


async def _error_of_writing(hub: EditorHub) -> EditorSilent | EditorRefused | None:
    try:
        await hub.files_of(LANE).write_text(FILE, "x")
    except (EditorSilent, EditorRefused) as exc:
        return exc
    return None
