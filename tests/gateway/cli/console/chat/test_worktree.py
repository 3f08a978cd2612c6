"""`--worktree` and `/worktree` in a real terminal."""

from pathlib import Path

import pytest

from gateway.core.session_folder import SessionFolder
from tests.agent.worktrees.repositories import commit_all, create_repository, git
from tests.fakes.memory_service import MemoryService
from tests.gateway.cli.console.chat.prompt import PROMPT, say_hello
from tests.gateway.cli.console.terminal import kore_agent

pytestmark = pytest.mark.programs("git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = create_repository(tmp_path.resolve() / "project")
    (folder / "part").mkdir()
    (folder / "part" / "part.py").write_text("")
    commit_all(folder, "part")
    return folder


@pytest.fixture
def environ(repository: Path) -> dict[str, str]:
    trusted = f'["{repository}"]'
    return {"KORE_AGENT_START_IN": "project", "KORE_SECURITY_TRUSTED_FOLDERS": trusted}


async def test_conversation_starts_in_the_same_place_of_the_worktree(
    owner: MemoryService, home: Path, repository: Path, environ: dict[str, str]
) -> None:
    worktree = repository.parent / "project.worktrees" / "fix"
    here = repository / "part"
    async with kore_agent(home, "--worktree", "fix", environ=environ, cwd=here) as terminal:
        folder = await say_hello(terminal, owner)
        assert folder == SessionFolder(str(worktree), str(worktree / "part"))
        assert "kore trust" not in terminal.text


async def test_conversation_moves_to_a_worktree_and_back(
    owner: MemoryService, home: Path, repository: Path, environ: dict[str, str]
) -> None:
    worktree = repository.parent / "project.worktrees" / "fix"
    async with kore_agent(home, environ=environ, cwd=repository) as terminal:
        assert await say_hello(terminal, owner) == SessionFolder(str(repository))
        for name, expected in (("fix", worktree), ("leave", repository)):
            terminal.type(f"/worktree {name}\r")
            await terminal.see("Session ")
            await terminal.see(PROMPT)
            terminal.type(f"now {name}\r")
            await terminal.see(f"echo: now {name}")
            assert owner.submitted[-1].options.folder == SessionFolder(str(expected))
        assert len(owner.sessions_by_id) == 1


async def test_bad_name_is_explained_and_the_conversation_stays(
    owner: MemoryService, home: Path, repository: Path, environ: dict[str, str]
) -> None:
    async with kore_agent(home, environ=environ, cwd=repository) as terminal:
        await terminal.see(PROMPT)
        terminal.type("/worktree a/b\r")
        await terminal.see("is not a name for a worktree")
        assert await say_hello(terminal, owner) == SessionFolder(str(repository))


async def test_worktree_made_with_git_is_trusted_with_its_repository(
    owner: MemoryService, home: Path, repository: Path, environ: dict[str, str]
) -> None:
    side = repository.parent / "side"
    git(repository, "worktree", "add", "-q", "-b", "side", str(side))
    async with kore_agent(home, environ=environ, cwd=side) as terminal:
        await terminal.see("Trusted: this is a worktree of")
        assert await say_hello(terminal, owner) == SessionFolder(str(side))
        assert "Trust this folder?" not in terminal.text


async def test_folder_without_git_is_refused_before_the_question_about_trust(
    owner: MemoryService, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    environ = {"KORE_AGENT_START_IN": "project"}
    async with kore_agent(home, "--worktree", "fix", environ=environ, cwd=folder) as terminal:
        await terminal.see("is not a git repository")
        assert "Trust this folder?" not in terminal.text
