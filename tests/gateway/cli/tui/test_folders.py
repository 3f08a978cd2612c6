"""Tabs of `kore tui` in different folders."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.cli.console.chat.place import ConsolePlace, OpenWorktree
from gateway.cli.tui.folder_chooser import FolderChooser
from gateway.cli.tui.tab_conversation import TabStart
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.store.repositories.conversations import session_folders
from tests.gateway.cli.tui.screens import Screens, full_screen_of
from tests.gateway.parts import Parts, running


@pytest.fixture
def own(tmp_path: Path) -> SessionFolder:
    folder = tmp_path.resolve() / "own"
    folder.mkdir()
    return SessionFolder(str(folder))


@pytest.fixture
def here(tmp_path: Path) -> SessionFolder:
    folder = tmp_path.resolve() / "here"
    folder.mkdir()
    return SessionFolder(str(folder))


async def session_in(parts: Parts, folder: SessionFolder) -> str:
    session = await parts.service.create_session()
    await parts.database.transact(session_folders.put, session, folder)
    return session


@asynccontextmanager
async def screens_in(
    parts: Parts,
    tmp_path: Path,
    here: SessionFolder,
    sessions: Sequence[str],
    *,
    is_folder_chosen: bool = False,
    open_worktree: OpenWorktree | None = None,
) -> AsyncIterator[Screens]:
    def open_place(folder: SessionFolder | None) -> ConsolePlace:
        return ConsolePlace(MessageOptions().in_folder(folder or here))

    options = MessageOptions().in_folder(here)
    start = TabStart(tmp_path, options, open_place, is_folder_chosen, open_worktree)
    async with full_screen_of(parts.service, tmp_path, sessions=sessions, start=start) as screens:
        yield screens


def folder_of(screens: Screens) -> SessionFolder | None:
    return screens.tab.conversation.options.folder


async def until_asked(screens: Screens) -> None:
    await screens.until(lambda: isinstance(screens.full_screen.screen, FolderChooser))


@pytest.mark.parametrize("keys", [["enter"], ["down", "enter"]], ids=["own", "here"])
async def test_session_opens_in_the_selected_folder(
    tmp_path: Path, own: SessionFolder, here: SessionFolder, keys: list[str]
) -> None:
    expected = own if keys == ["enter"] else here
    async with running(tmp_path, ["answer"]) as parts:
        session = await session_in(parts, own)
        async with screens_in(parts, tmp_path, here, [session]) as screens:
            await until_asked(screens)
            await screens.pilot.press(*keys)
            await screens.until(lambda: screens.full_screen.tab is not None)
            assert folder_of(screens) == expected
            await screens.write("hello")
            await screens.see("answer")
        assert await parts.database.transact(session_folders.of_session, session) == expected


async def test_new_tab_opens_when_no_folder_is_selected(
    tmp_path: Path, own: SessionFolder, here: SessionFolder
) -> None:
    async with running(tmp_path, []) as parts:
        session = await session_in(parts, own)
        async with screens_in(parts, tmp_path, here, [session]) as screens:
            await until_asked(screens)
            await screens.pilot.press("escape")
            await screens.until(lambda: screens.full_screen.tab is not None)
            assert screens.tab.conversation.session is None
            assert folder_of(screens) == here


async def test_tabs_work_in_different_folders(
    tmp_path: Path, own: SessionFolder, here: SessionFolder
) -> None:
    async with running(tmp_path, []) as parts:
        session = await session_in(parts, own)
        async with screens_in(parts, tmp_path, here, []) as screens:
            await screens.until(lambda: screens.full_screen.tab is not None)
            await screens.write(f"/resume {session}")
            await until_asked(screens)
            await screens.pilot.press("enter")
            await screens.until(lambda: screens.tab.conversation.session == session)
            assert folder_of(screens) == own
            assert screens.tab.folder == Path(own.path)
            assert own.path in screens.tab.status.line(200)
            await screens.pilot.press("f6")
            await screens.until(lambda: screens.tab.conversation.session is None)
            assert folder_of(screens) == here


async def test_explicit_folder_needs_no_question(
    tmp_path: Path, own: SessionFolder, here: SessionFolder
) -> None:
    async with running(tmp_path, []) as parts:
        session = await session_in(parts, own)
        opened = screens_in(parts, tmp_path, here, [session], is_folder_chosen=True)
        async with opened as screens:
            await screens.until(lambda: screens.full_screen.tab is not None)
            assert folder_of(screens) == here


async def test_session_of_a_missing_folder_opens_here(
    tmp_path: Path, own: SessionFolder, here: SessionFolder
) -> None:
    async with running(tmp_path, []) as parts:
        session = await session_in(parts, own)
        Path(own.path).rmdir()
        async with screens_in(parts, tmp_path, here, [session]) as screens:
            await screens.until(lambda: screens.full_screen.tab is not None)
            assert folder_of(screens) == here


async def test_worktree_opens_in_a_new_tab(
    tmp_path: Path, own: SessionFolder, here: SessionFolder
) -> None:
    opened: list[tuple[str, SessionFolder | None]] = []

    def open_worktree(name: str, folder: SessionFolder | None) -> ConsolePlace:
        opened.append((name, folder))
        return ConsolePlace(MessageOptions().in_folder(own))

    async with (
        running(tmp_path, ["answer"]) as parts,
        screens_in(parts, tmp_path, here, [], open_worktree=open_worktree) as screens,
    ):
        first = screens.tab
        await screens.write("/worktree fix")
        await screens.until(lambda: screens.tab is not first)
        assert opened == [("fix", here)]
        assert folder_of(screens) == own
