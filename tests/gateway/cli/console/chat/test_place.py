"""Choice of the folder in which a session of another folder continues, in a real terminal."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.core.messages import MessageOptions
from gateway.core.session_folder import SessionFolder
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.console.chat.prompt import PROMPT, say_hello
from tests.gateway.cli.console.terminal import kore_agent, kore_there

ENVIRON = {"KORE_AGENT_START_IN": "project"}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folder of a session and the folder of the shell."""
    names = ("own", "here")
    for name in names:
        (tmp_path / name).mkdir()
    own, here = (tmp_path.resolve() / name for name in names)
    return own, here


async def begin_session(owner: MemoryService, folder: Path) -> str:
    builder = MessageBuilder("earlier", MessageOptions().in_folder(SessionFolder(str(folder))))
    session = await owner.bind_session(builder.lane, None)
    owner.submitted.append(builder.build("begin"))
    stored = owner.sessions_by_id[session]
    principal = builder.build("").principal
    stored.info = replace(stored.info, principal=principal, name="the earlier one")
    return session


@pytest.mark.parametrize(("key", "index"), [("a", 0), ("", 0), ("b", 1)])
async def test_session_continues_in_the_selected_folder(
    owner: MemoryService, home: Path, folders: tuple[Path, Path], key: str, index: int
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    async with kore_agent(home, "-s", session, environ=ENVIRON, cwd=here) as terminal:
        await terminal.see("Trust this folder?")
        terminal.type("n\r")
        await terminal.see("This session belongs to")
        await terminal.see("[A/b]")
        terminal.type(f"{key}\r")
        await terminal.see("Session ")
        folder = await say_hello(terminal, owner)
    assert folder == SessionFolder(str(folders[index]))


async def test_invalid_answer_is_asked_again(
    owner: MemoryService, home: Path, folders: tuple[Path, Path]
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    environ = {**ENVIRON, "KORE_SECURITY_TRUSTED_FOLDERS": f'["{here}"]'}
    async with kore_agent(home, "-s", session, environ=environ, cwd=here) as terminal:
        await terminal.see("[A/b]")
        terminal.type("x\r")
        await terminal.see("[A/b]")
        terminal.type("b\r")
        assert await say_hello(terminal, owner) == SessionFolder(str(here))


async def test_explicit_folder_needs_no_question(
    owner: MemoryService, home: Path, folders: tuple[Path, Path]
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    async with kore_agent(home, "-s", session, "--cwd", str(here)) as terminal:
        folder = await say_hello(terminal, owner)
    assert folder == SessionFolder(str(here))
    assert "This session belongs to" not in terminal.text


async def test_missing_folder_is_named_and_the_session_continues_here(
    owner: MemoryService, home: Path, folders: tuple[Path, Path]
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    own.rmdir()
    environ = {**ENVIRON, "KORE_SECURITY_TRUSTED_FOLDERS": f'["{here}"]'}
    async with kore_agent(home, "-s", session, environ=environ, cwd=here) as terminal:
        await terminal.see("The folder of this session is gone")
        assert await say_hello(terminal, owner) == SessionFolder(str(here))


async def test_resumed_session_moves_the_conversation_to_its_folder(
    owner: MemoryService, home: Path, folders: tuple[Path, Path]
) -> None:
    own, here = folders
    (own / "letter.txt").write_text("words")
    session = await begin_session(owner, own)
    environ = {**ENVIRON, "KORE_SECURITY_TRUSTED_FOLDERS": f'["{here}", "{own}"]'}
    async with kore_agent(home, environ=environ, cwd=here) as terminal:
        assert await say_hello(terminal, owner) == SessionFolder(str(here))
        await terminal.see(PROMPT)
        terminal.type(f"/resume {session}\r")
        await terminal.see("[A/b]")
        terminal.type("a\r")
        await terminal.see(f"Session {session}")
        assert await say_hello(terminal, owner) == SessionFolder(str(own))
        await terminal.see(PROMPT)
        terminal.type("!ls\r")
        await terminal.see("letter.txt")


@pytest.mark.parametrize(("key", "index"), [("a", 0), ("b", 1)])
async def test_single_turn_asks_its_question_at_a_terminal(
    owner: MemoryService, home: Path, folders: tuple[Path, Path], key: str, index: int
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    environ = {**ENVIRON, "KORE_SECURITY_TRUSTED_FOLDERS": f'["{here}"]'}
    words = ("agent", "-m", "hello", "-s", session)
    async with kore_there(home, *words, environ=environ, cwd=here) as terminal:
        await terminal.see("[A/b]")
        terminal.type(f"{key}\n")
        await terminal.see("echo: hello")
        assert await terminal.ended() == 0
    assert owner.submitted[-1].options.folder == SessionFolder(str(folders[index]))


async def test_single_turn_ends_when_its_question_is_interrupted(
    owner: MemoryService, home: Path, folders: tuple[Path, Path]
) -> None:
    own, here = folders
    session = await begin_session(owner, own)
    environ = {**ENVIRON, "KORE_SECURITY_TRUSTED_FOLDERS": f'["{here}"]'}
    words = ("agent", "-m", "hello", "-s", session)
    async with kore_there(home, *words, environ=environ, cwd=here) as terminal:
        await terminal.see("[A/b]")
        terminal.type("\x04")
        assert await terminal.ended() == 130
    assert [message.content for message in owner.submitted] == ["begin"]
