"""Trust in linked worktrees: recorded by Kore, and linked in both directions."""

import json
import shutil
from pathlib import Path

import pytest

from agent.security.taint.file_marks import is_unseen, mark_level, mark_tainted
from agent.security.taint.origin import TrustedOrigins
from agent.security.taint.worktree_record import WorktreeRecord
from agent.worktrees.project_worktrees import ProjectWorktrees
from gateway.config.folder_trust import read_trusted, trust
from tests.agent.worktrees.repositories import commit_all, create_repository, git

pytestmark = pytest.mark.programs("git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return create_repository(tmp_path.resolve() / "project")


@pytest.fixture
def kore_folder(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "kore"


@pytest.fixture
def origin(tmp_path: Path, repository: Path, kore_folder: Path) -> TrustedOrigins:
    return TrustedOrigins((tmp_path / "workspace", repository), WorktreeRecord(kore_folder))


@pytest.fixture
def side(repository: Path) -> Path:
    """Return a worktree that the person made with git."""
    folder = repository.parent / "side"
    git(repository, "worktree", "add", "-q", "-b", "side", str(folder))
    return folder


def test_worktree_of_a_trusted_repository_is_trusted(
    origin: TrustedOrigins, repository: Path
) -> None:
    folder = ProjectWorktrees(origin).open(repository, "fix").folder
    assert origin.is_own(folder / "main.py")
    assert not origin.is_own(folder.parent)
    assert not TrustedOrigins(origin.own[:1], origin.worktrees).is_own(folder)


def test_worktree_of_an_untrusted_repository_is_not(origin: TrustedOrigins, tmp_path: Path) -> None:
    other = create_repository(tmp_path.resolve() / "other")
    folder = ProjectWorktrees(origin).open(other, "fix").folder
    assert not origin.is_own(folder)


def test_worktree_made_with_git_is_trusted_where_the_person_starts(
    origin: TrustedOrigins, repository: Path, side: Path
) -> None:
    assert not origin.is_own(side)
    assert origin.adopt(side) == repository
    assert origin.is_own(side)
    assert origin.adopt(side) is None


def test_folder_that_only_points_at_the_repository_is_not_trusted(
    origin: TrustedOrigins, side: Path, tmp_path: Path
) -> None:
    stranger = tmp_path.resolve() / "stranger"
    stranger.mkdir()
    shutil.copy(side / ".git", stranger / ".git")
    assert origin.adopt(stranger) is None
    assert not origin.is_own(stranger)


def test_recorded_folder_needs_the_link_in_both_directions(
    origin: TrustedOrigins, repository: Path, side: Path, tmp_path: Path
) -> None:
    origin.adopt(side)
    pointer = repository / ".git" / "worktrees" / "side" / "gitdir"
    before = pointer.read_text()
    pointer.write_text(f"{tmp_path}/elsewhere/.git\n")
    assert not origin.is_own(side)
    pointer.write_text(before)
    other = create_repository(tmp_path.resolve() / "other")
    (side / ".git").write_text(f"gitdir: {other}/.git\n")
    assert not origin.is_own(side)


def test_link_that_a_command_with_untrusted_text_may_have_written_is_not_adopted(
    origin: TrustedOrigins, repository: Path, side: Path
) -> None:
    mark_tainted(repository / ".git" / "worktrees" / "side" / "gitdir", repository, unseen=True)
    assert origin.adopt(side) is None
    assert not origin.is_own(side)


def test_folder_that_such_a_link_calls_a_worktree_is_not_trusted_by_its_name(
    origin: TrustedOrigins, repository: Path, side: Path
) -> None:
    git(side, "branch", "-m", "kore/fix")
    mark_tainted(repository / ".git" / "worktrees" / "side" / "gitdir", repository, unseen=True)
    assert ProjectWorktrees(origin).open(repository, "fix").folder == side
    assert not origin.is_own(side)


def test_record_of_another_folder_does_not_count(
    origin: TrustedOrigins, side: Path, kore_folder: Path
) -> None:
    origin.adopt(side)
    (entry,) = (kore_folder / "worktrees").iterdir()
    entry.write_text(json.dumps(json.loads(entry.read_text()) | {"worktree": "/elsewhere"}))
    assert not origin.is_own(side)
    entry.write_text("{")
    assert not origin.is_own(side)


def test_configuration_counts_with_the_content_that_was_trusted_in_the_main_checkout(
    origin: TrustedOrigins, repository: Path, kore_folder: Path
) -> None:
    (repository / ".mcp.json").write_text("{}")
    commit_all(repository, "servers")
    trust([repository / ".mcp.json"], kore_folder)
    file = ProjectWorktrees(origin).open(repository, "fix").folder / ".mcp.json"
    assert read_trusted(file, kore_folder) == b"{}"
    file.write_text('{"mcpServers": {}}')
    assert read_trusted(file, kore_folder) is None


def test_removed_worktree_is_forgotten(
    origin: TrustedOrigins, repository: Path, kore_folder: Path
) -> None:
    worktrees = ProjectWorktrees(origin)
    worktrees.open(repository, "fix")
    worktrees.remove(repository, "fix")
    assert list((kore_folder / "worktrees").iterdir()) == []


@pytest.mark.parametrize("unseen", [False, True])
def test_merged_files_keep_their_marks(
    origin: TrustedOrigins, repository: Path, unseen: bool
) -> None:
    worktrees = ProjectWorktrees(origin)
    folder = worktrees.open(repository, "fix").folder
    for name in ("own.py", "strange.py"):
        (folder / name).write_text("text")
    mark_tainted(folder / "strange.py", folder, unseen=unseen)
    commit_all(folder, "new")
    worktrees.merge(repository, "fix")
    assert mark_level(repository / "strange.py") == ("unseen" if unseen else "seen")
    assert mark_level(repository / "own.py") == "none"


@pytest.mark.parametrize("name", ['quote".md', "tab\t.md", "separator\u2028.md"])
def test_merged_file_with_an_unusual_name_keeps_its_mark(
    origin: TrustedOrigins, repository: Path, name: str
) -> None:
    worktrees = ProjectWorktrees(origin)
    folder = worktrees.open(repository, "fix").folder
    (folder / name).write_text("text")
    mark_tainted(folder / name, folder)
    commit_all(folder, "new")
    assert worktrees.merge(repository, "fix").files == [name]
    assert mark_level(repository / name) == "seen"


@pytest.mark.parametrize("is_deleted", [True, False])
def test_merged_file_that_a_command_hid_from_git_is_marked(
    origin: TrustedOrigins, repository: Path, *, is_deleted: bool
) -> None:
    (repository / "AGENTS.md").write_text("mine\n")
    commit_all(repository, "rules")
    worktrees = ProjectWorktrees(origin)
    folder = worktrees.open(repository, "fix").folder
    (folder / "AGENTS.md").write_text("planted\n")
    commit_all(folder, "planted")
    git(folder, "update-index", "--skip-worktree", "AGENTS.md")
    (folder / "AGENTS.md").unlink()
    if not is_deleted:
        (folder / "AGENTS.md").write_text("mine\n")
    # The marks of a command that read untrusted text.
    mark_tainted(folder / "main.py", folder, unseen=True)
    worktrees.merge(repository, "fix")
    assert (repository / "AGENTS.md").read_text() == "planted\n"
    assert is_unseen(repository / "AGENTS.md")
