"""`/worktree` in a chat and on the web page."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.core.messages import Sender, route_of_session
from gateway.core.session_folder import SessionFolder
from gateway.store.repositories.conversations import session_folders
from tests.agent.worktrees.repositories import IDENTITY, commit_all, create_repository, git
from tests.gateway.parts import Parts, answer_to, chat_message, console_message, running

pytestmark = pytest.mark.programs("git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return the workspace of the conversations, as a repository."""
    return create_repository(tmp_path.resolve() / "workspace")


@asynccontextmanager
async def owned(folder: Path) -> AsyncIterator[Parts]:
    async with running(folder, ["answer"], owner="chat:7") as parts:
        yield parts


async def test_worktree_is_listed_merged_and_removed(tmp_path: Path, repository: Path) -> None:
    async with owned(tmp_path) as parts:
        assert "no worktrees" in await answer_to(parts, chat_message("/worktree"))
        created = await answer_to(parts, chat_message("/worktree fix"))
        folder = repository.parent / "workspace.worktrees" / "fix"
        assert str(folder) in created
        assert "kore agent --worktree fix" in created
        (folder / "new.py").write_text("new = 1\n")
        listing = await answer_to(parts, chat_message("/worktree list"))
        assert "`fix`" in listing
        assert "uncommitted: new.py" in listing
        assert "new.py" in await answer_to(parts, chat_message("/worktree merge fix"))
        commit_all(folder, "new")
        assert "commits that no other" in await answer_to(
            parts, chat_message("/worktree remove fix")
        )
        merged = await answer_to(parts, chat_message("/worktree merge fix"))
        assert "Merged 1 commit of `fix` into `main`: new.py" in merged
        assert (repository / "new.py").exists()
        removed = await answer_to(parts, chat_message("/worktree remove fix"))
        assert str(folder) in removed
        assert not folder.exists()


@pytest.mark.parametrize("line", ["/worktree merge x", "/worktree a/b", "/worktree remove"])
async def test_refusals_are_sentences(tmp_path: Path, repository: Path, line: str) -> None:
    async with owned(tmp_path) as parts:
        assert "⚠️" in await answer_to(parts, chat_message(line))
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_listing_names_a_merge_in_progress(tmp_path: Path, repository: Path) -> None:
    async with owned(tmp_path) as parts:
        await answer_to(parts, chat_message("/worktree fix"))
        folder = repository.parent / "workspace.worktrees" / "fix"
        for place, value in ((folder, 2), (repository, 3)):
            (place / "main.py").write_text(f"value = {value}\n")
            commit_all(place, f"value {value}")
        subprocess.run(["git", *IDENTITY, "merge", "-q", "kore/fix"], cwd=repository, check=False)
        assert "git merge --abort" in await answer_to(parts, chat_message("/worktree"))


async def test_command_is_only_for_the_owner(tmp_path: Path, repository: Path) -> None:
    async with owned(tmp_path) as parts:
        stranger = chat_message("/worktree fix", "8", sender=Sender("8", "Bob"))
        assert "Only the owner" in await answer_to(parts, stranger)
        assert "Only the owner" in await answer_to(
            parts, chat_message("/worktree fix", private=False)
        )
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_session_of_the_page_moves_to_the_worktree_and_back(
    tmp_path: Path, repository: Path
) -> None:
    async with owned(tmp_path) as parts:
        session = await parts.service.create_session()
        await parts.database.transact(session_folders.put, session, SessionFolder(str(repository)))
        route = route_of_session(session)
        await parts.service.bind_session(route.lane, session)
        folder = repository.parent / "workspace.worktrees" / "fix"
        for name, expected in (("fix", folder), ("leave", repository)):
            message = console_message(f"/worktree {name}", route.chat_id)
            await parts.bus.submit(message)
            await parts.until_answered(message)
            stored = await parts.database.transact(session_folders.of_session, session)
            assert stored == SessionFolder(str(expected))
