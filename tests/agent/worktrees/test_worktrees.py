"""Worktrees of a repository: created, listed, merged and removed without loss."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.security.taint.file_marks import mark_tainted
from agent.security.taint.origin import TrustedOrigins
from agent.security.taint.worktree_record import WorktreeRecord
from agent.worktrees.git import WorktreeError, find_checkout
from agent.worktrees.project_worktrees import ProjectWorktrees
from tests.agent.worktrees.repositories import (
    IDENTITY,
    commit_all,
    create_repository,
    git,
    worktrees_of,
)

pytestmark = pytest.mark.programs("git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return create_repository(tmp_path.resolve() / "project")


def test_worktree_is_created_beside_the_repository_on_a_branch_of_its_name(
    repository: Path,
) -> None:
    worktree = worktrees_of(repository).open("fix")
    assert worktree.folder == repository.parent / "project.worktrees" / "fix"
    assert worktree.branch == "kore/fix"
    assert (worktree.folder / "main.py").read_text() == "value = 1\n"
    assert git(repository, "status", "--porcelain") == ""


def test_configured_folder_separates_repositories_of_the_same_name(tmp_path: Path) -> None:
    parent = tmp_path.resolve() / "trees"
    folders = [
        worktrees_of(create_repository(tmp_path.resolve() / name / "app"), parent)
        .open("fix")
        .folder
        for name in ("one", "two")
    ]
    assert len(set(folders)) == 2
    assert all(folder.is_relative_to(parent) for folder in folders)


def test_same_name_opens_the_same_worktree_from_any_checkout(repository: Path) -> None:
    worktree = worktrees_of(repository).open("fix")
    assert worktrees_of(repository).open("fix") == worktree
    assert worktrees_of(worktree.folder).open("fix") == worktree


def test_worktree_of_a_worktree_starts_from_its_commits(repository: Path) -> None:
    first = worktrees_of(repository).open("first").folder
    (first / "new.py").write_text("new = 1\n")
    commit_all(first, "new")
    second = worktrees_of(first).open("second").folder
    assert (second / "new.py").exists()
    assert second.parent == first.parent


@pytest.mark.parametrize(
    "name",
    ["", "..", "a/b", "-x", "a..b", "a.lock", "a.", "a b", "ü", "list", "leave", "x" * 64, "a\n"],
)
def test_names_other_than_plain_words_are_refused(repository: Path, name: str) -> None:
    with pytest.raises(WorktreeError, match="not a name"):
        worktrees_of(repository).open(name)
    assert worktrees_of(repository).list() == []


def test_repository_without_a_commit_is_explained(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(WorktreeError, match="no commit"):
        worktrees_of(tmp_path.resolve()).open("fix")


def test_detached_head_is_a_start_but_no_target(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    worktrees = worktrees_of(repository)
    worktree = worktrees.open("fix")
    assert (worktree.folder / "main.py").exists()
    with pytest.raises(WorktreeError, match="no branch"):
        worktrees.merge(worktree)


def test_submodule_is_refused(repository: Path, tmp_path: Path) -> None:
    library = create_repository(tmp_path.resolve() / "library")
    git(
        repository,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(library),
        "lib",
    )
    with pytest.raises(WorktreeError, match="submodule"):
        find_checkout(repository / "lib", is_trusted=True)


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path) -> Path:
    """Return the repository with a submodule in `lib`."""
    library = create_repository(tmp_path.resolve() / "library")
    allow = ("-c", "protocol.file.allow=always")
    git(repository, *allow, "submodule", "add", "-q", str(library), "lib")
    commit_all(repository, "submodule")
    return repository


def test_empty_submodules_are_named_and_do_not_block_removal(with_submodule: Path) -> None:
    worktrees = ProjectWorktrees(TrustedOrigins((with_submodule,)))
    folder = worktrees.open(with_submodule, "fix").folder
    remark = worktrees.remark(with_submodule, folder)
    assert "(lib)" in remark
    assert "git submodule update --init" in remark
    assert worktrees.remark(with_submodule, with_submodule) == ""
    worktrees.remove(with_submodule, "fix")
    assert not folder.exists()


def test_submodules_with_files_are_not_removed(with_submodule: Path) -> None:
    worktrees = worktrees_of(with_submodule)
    folder = worktrees.open("fix").folder
    git(folder, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    (folder / "lib" / "draft.py").write_text("draft")
    with pytest.raises(WorktreeError, match="submodules have files"):
        worktrees.remove(worktrees.find("fix"))
    assert (folder / "lib" / "draft.py").exists()


@pytest.mark.parametrize("name", ["project.git", ".bare", ".git"])
def test_worktrees_of_a_bare_repository_are_created_merged_and_removed(
    repository: Path, tmp_path: Path, name: str
) -> None:
    store, side = tmp_path.resolve() / "layout" / name, tmp_path.resolve() / "layout" / "side"
    git(repository, "clone", "-q", "--bare", str(repository), str(store))
    git(store, "worktree", "add", "-q", str(side), "main")
    worktrees = worktrees_of(side)
    folder = worktrees.open("fix").folder
    expected = side.parent / "project.worktrees" if name == "project.git" else side.parent
    assert folder == expected / "fix"
    assert {worktree.folder for worktree in worktrees.list()} == {side, folder}
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    worktrees.merge(worktrees.find("fix"))
    assert (side / "new.py").exists()
    worktrees.remove(worktrees.find("fix"))
    assert not folder.exists()
    assert git(store, "branch", "--format=%(refname:short)").split() == ["main"]


def test_trust_in_a_worktree_of_a_bare_repository_covers_new_ones(
    repository: Path, tmp_path: Path
) -> None:
    store, side = tmp_path.resolve() / "project.git", tmp_path.resolve() / "side"
    git(repository, "clone", "-q", "--bare", str(repository), str(store))
    git(store, "worktree", "add", "-q", str(side), "main")
    kore = tmp_path / "kore"
    worktrees = ProjectWorktrees(TrustedOrigins((side,), WorktreeRecord(kore)))
    first = worktrees.open(side, "first").folder
    second = worktrees.open(first, "second").folder
    assert worktrees.origin.is_own(first)
    assert worktrees.origin.is_own(second)
    assert not TrustedOrigins((repository,), WorktreeRecord(kore)).is_own(first)
    (second / ".git").write_text((first / ".git").read_text())
    assert not worktrees.origin.is_own(second)


def test_bare_repository_has_no_main_checkout_to_return_to(
    repository: Path, tmp_path: Path
) -> None:
    store, side = tmp_path.resolve() / "project.git", tmp_path.resolve() / "side"
    git(repository, "clone", "-q", "--bare", str(repository), str(store))
    git(store, "worktree", "add", "-q", str(side), "main")
    with pytest.raises(WorktreeError, match="no main checkout"):
        ProjectWorktrees(TrustedOrigins((side,))).enter(side, "leave")


def test_occupied_folder_is_left_alone(repository: Path) -> None:
    folder = repository.parent / "project.worktrees" / "fix"
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text("mine")
    with pytest.raises(WorktreeError, match="exists already"):
        worktrees_of(repository).open("fix")
    assert (folder / "letter.txt").read_text() == "mine"


def test_parent_that_is_a_link_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository.parent / "project.worktrees").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorktreeError, match="link"):
        worktrees_of(repository).open("fix")


def test_folder_deleted_by_hand_comes_back_with_its_commits(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert [worktree.is_missing for worktree in worktrees.list()] == [True]
    assert (worktrees.open("fix").folder / "new.py").exists()


def test_folder_deleted_by_hand_is_removed_only_without_own_commits(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    for name in ("kept", "gone"):
        folder = worktrees.open(name).folder
        if name == "kept":
            (folder / "new.py").write_text("new = 1\n")
            commit_all(folder, "new")
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    worktrees.remove(worktrees.find("gone"))
    with pytest.raises(WorktreeError, match="kept"):
        worktrees.remove(worktrees.find("kept"))
    assert [worktree.name for worktree in worktrees.list()] == ["kept"]


def test_subagent_worktrees_are_removed_after_their_folder_was_deleted(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    worktrees.open("sub-agent")
    shutil.rmtree(worktrees.parent)
    worktrees.remove_merged()
    assert worktrees.list() == []


@pytest.mark.parametrize("separator", ["\n", "\u2028", "\r"])
def test_names_with_line_breaks_are_listed_as_they_are(repository: Path, separator: str) -> None:
    forged = f"side{separator}{separator}worktree {repository.parent / 'forged'}{separator}HEAD"
    folder = repository.parent / forged.replace("/", "-")
    git(repository, "worktree", "add", "-q", "--detach", str(folder))
    assert [worktree.folder for worktree in worktrees_of(repository).list()] == [folder]
    worktrees_of(repository).remove(worktrees_of(repository).find(folder.name))
    assert not folder.exists()


def test_line_separator_in_a_branch_does_not_hide_its_own_commits(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    git(folder, "checkout", "-q", "-b", "kore/\u2028fix")
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    with pytest.raises(WorktreeError, match="kept"):
        worktrees.remove(worktrees.find("fix"))
    assert (folder / "new.py").exists()


def test_state_names_changes_and_commits(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    (folder / "draft é.txt").write_text("draft")
    state = worktrees.state(worktrees.find("fix"))
    assert state.changed_files == ["draft é.txt"]
    assert state.commits == 1
    assert not state.is_contained


def test_merge_brings_the_commits_and_then_nothing(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    (repository / "other.py").write_text("other = 1\n")
    commit_all(repository, "other")
    merged = worktrees.merge(worktrees.find("fix"))
    assert (merged.commits, merged.files, merged.target) == (1, ["new.py"], "main")
    assert (repository / "new.py").read_text() == "new = 1\n"
    assert worktrees.merge(worktrees.find("fix")).commits == 0


def test_merge_leaves_a_checkout_with_changes_alone(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    (repository / "main.py").write_text("value = 2\n")
    with pytest.raises(WorktreeError, match=r"uncommitted changes: main\.py"):
        worktrees.merge(worktrees.find("fix"))
    assert (repository / "main.py").read_text() == "value = 2\n"
    assert not (repository / "new.py").exists()


def test_merge_overwrites_no_untracked_file(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    (repository / "new.py").write_text("mine")
    with pytest.raises(WorktreeError, match=r"new\.py"):
        worktrees.merge(worktrees.find("fix"))
    assert (repository / "new.py").read_text() == "mine"


def test_merge_refuses_a_worktree_with_uncommitted_work(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "draft.py").write_text("draft")
    with pytest.raises(WorktreeError, match=r"uncommitted changes: draft\.py"):
        worktrees.merge(worktrees.find("fix"))


def test_conflicting_merge_is_undone_and_named(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    for place, value in ((folder, 2), (repository, 3)):
        (place / "main.py").write_text(f"value = {value}\n")
        commit_all(place, f"value {value}")
    with pytest.raises(WorktreeError, match=r"main\.py"):
        worktrees.merge(worktrees.find("fix"))
    assert (repository / "main.py").read_text() == "value = 3\n"
    assert git(repository, "status", "--porcelain") == ""
    assert worktrees.state(worktrees.find("fix")).commits == 1


def test_merge_in_progress_is_named_with_the_way_out(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    for place, value in ((folder, 2), (repository, 3)):
        (place / "main.py").write_text(f"value = {value}\n")
        commit_all(place, f"value {value}")
    # State of the checkout after a kill between git's merge and its reversal.
    subprocess.run(["git", *IDENTITY, "merge", "-q", "kore/fix"], cwd=repository, check=False)
    with pytest.raises(WorktreeError, match="a merge or rebase is in progress") as caught:
        worktrees.merge(worktrees.find("fix"))
    assert caught.value.hint is not None
    assert "git merge --abort" in caught.value.hint
    git(repository, "merge", "--abort")
    assert git(repository, "status", "--porcelain") == ""


def test_removal_keeps_uncommitted_work_and_own_commits(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "draft.py").write_text("draft")
    with pytest.raises(WorktreeError, match=r"draft\.py"):
        worktrees.remove(worktrees.find("fix"))
    commit_all(folder, "draft")
    with pytest.raises(WorktreeError, match="kept"):
        worktrees.remove(worktrees.find("fix"))
    assert (folder / "draft.py").exists()


def test_removal_keeps_commits_of_a_detached_head(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    git(folder, "checkout", "-q", "--detach")
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    with pytest.raises(WorktreeError, match="kept"):
        worktrees.remove(worktrees.find("fix"))


def test_removal_keeps_a_rebase_that_has_begun(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    for place, value in ((folder, 2), (repository, 3)):
        (place / "main.py").write_text(f"value = {value}\n")
        commit_all(place, f"value {value}")
    subprocess.run(["git", "rebase", "-q", "main"], cwd=folder, check=False, capture_output=True)
    git(folder, "checkout", "-q", "--ours", "main.py")
    git(folder, "reset", "-q", "--hard")
    with pytest.raises(WorktreeError, match="rebase-merge"):
        worktrees.remove(worktrees.find("fix"))


@pytest.mark.parametrize("option", ["--assume-unchanged", "--skip-worktree"])
def test_removal_keeps_work_that_the_index_hides(repository: Path, option: str) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    git(folder, "update-index", option, "main.py")
    (folder / "main.py").write_text("value = 2\n")
    assert git(folder, "status", "--porcelain") == ""
    with pytest.raises(WorktreeError, match=r"uncommitted changes: main\.py"):
        worktrees.remove(worktrees.find("fix"))
    assert (folder / "main.py").read_text() == "value = 2\n"


def test_merged_worktree_is_removed_with_its_branch(repository: Path) -> None:
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    commit_all(folder, "new")
    worktrees.merge(worktrees.find("fix"))
    worktrees.remove(worktrees.find("fix"))
    assert not folder.exists()
    assert git(repository, "branch", "--format=%(refname:short)").split() == ["main"]


def test_checkout_of_the_conversation_is_not_removed(repository: Path) -> None:
    worktree = worktrees_of(repository).open("fix")
    with pytest.raises(WorktreeError, match="works in"):
        worktrees_of(worktree.folder).remove(worktree)


def test_worktree_whose_pointer_was_replaced_is_left_alone(
    repository: Path, tmp_path: Path
) -> None:
    worktrees = worktrees_of(repository)
    worktree = worktrees.open("fix")
    other = create_repository(tmp_path.resolve() / "other")
    git(other, "worktree", "add", "-q", str(tmp_path / "side"))
    pointer = (tmp_path / "side" / ".git").read_text()
    (worktree.folder / ".git").write_text(pointer)
    with pytest.raises(WorktreeError, match="name each other"):
        worktrees.remove(worktree)
    assert worktree.folder.exists()


def test_hooks_and_monitors_of_the_project_do_not_run(repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    for hook in ("post-checkout", "pre-commit", "post-merge", "pre-merge-commit", "post-commit"):
        (repository / ".git" / "hooks" / hook).symlink_to(script)
    git(repository, "config", "core.fsmonitor", str(script))
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    (folder / "new.py").write_text("new = 1\n")
    assert worktrees.commit(worktrees.find("fix"), "new")
    worktrees.merge(worktrees.find("fix"))
    worktrees.remove(worktrees.find("fix"))
    assert not (tmp_path / "ran").exists()


def test_configuration_that_names_programs_needs_trust(repository: Path) -> None:
    find_checkout(repository, is_trusted=False)
    git(repository, "config", "filter.x.smudge", "touch /tmp/ran")
    with pytest.raises(WorktreeError, match="may name programs"):
        find_checkout(repository, is_trusted=False)
    find_checkout(repository, is_trusted=True)


def test_own_configuration_of_a_worktree_must_be_plain_even_if_trusted(repository: Path) -> None:
    worktree = worktrees_of(repository).open("fix")
    store = repository / ".git" / "worktrees" / "fix"
    (store / "config.worktree").write_text("[core]\n\tfsmonitor = ./x\n")
    with pytest.raises(WorktreeError, match="may name programs"):
        find_checkout(worktree.folder, is_trusted=True)


def test_commit_without_an_identity_is_kores(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    assert not worktrees.commit(worktrees.find("fix"), "nothing")
    (folder / "new.py").write_text("new = 1\n")
    assert worktrees.commit(worktrees.find("fix"), "new")
    assert git(folder, "log", "-1", "--format=%an %s").strip() == "Kore new"


def test_two_processes_at_once_get_the_same_worktree(repository: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: worktrees_of(repository).open("fix").folder, range(4)))
    assert len(set(folders)) == 1
    assert git(folders[0], "status", "--porcelain") == ""


@pytest.mark.parametrize("moment", ["HEAD", "index.lock"])
def test_creation_that_was_killed_is_repeated(repository: Path, moment: str) -> None:
    for number in range(2_000):
        (repository / f"file{number}").write_text("text\n" * 50)
    commit_all(repository, "many")
    program = (
        "from pathlib import Path\n"
        "from tests.agent.worktrees.repositories import worktrees_of\n"
        f"worktrees_of(Path({str(repository)!r})).open('fix')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    entry = repository / ".git" / "worktrees" / "fix"
    while not (entry / moment).exists() and process.poll() is None:
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    folder = worktrees_of(repository).open("fix").folder
    assert git(folder, "status", "--porcelain") == ""
    assert not (entry / "locked").exists()


def test_entry_without_its_link_to_the_store_is_completed(repository: Path) -> None:
    """Git writes the file first and its content later, and lists no worktree without it."""
    folder = worktrees_of(repository).open("fix").folder
    entry = repository / ".git" / "worktrees" / "fix"
    (entry / "commondir").write_text("")
    os.mkfifo(repository / ".git" / "worktrees" / "pipe")
    (other := repository / ".git" / "worktrees" / "other").mkdir()
    (other / "commondir").symlink_to(target := repository / "target")
    assert [worktree.folder for worktree in worktrees_of(repository).list()] == [folder]
    assert (entry / "commondir").read_text() == "../..\n"
    assert not target.exists()


def test_work_in_a_worktree_that_a_command_calls_unfinished_is_not_removed(
    repository: Path,
) -> None:
    folder = worktrees_of(repository).open("fix").folder
    (folder / "new.py").write_text("work = 1\n")
    entry = repository / ".git" / "worktrees" / "fix"
    (entry / "locked").write_text("initializing")
    (entry / "index").unlink()
    with pytest.raises(WorktreeError, match=r"uncommitted changes: new\.py"):
        worktrees_of(repository).open("fix")
    assert (folder / "new.py").read_text() == "work = 1\n"


@pytest.fixture
def marker_filter(repository: Path, tmp_path: Path) -> tuple[str, Path]:
    """Return configuration with a filter for all files, and the file that the filter writes."""
    git(repository, "config", "extensions.worktreeConfig", "true")
    (repository / ".git" / "info" / "attributes").write_text("* filter=planted\n")
    marker = tmp_path / "filter-ran"
    return f'[filter "planted"]\n\tclean = touch {marker}; cat\n', marker


def test_configuration_in_the_state_of_a_worktree_names_no_program(
    repository: Path, marker_filter: tuple[str, Path]
) -> None:
    """The repository is trusted, but commands may write there."""
    configuration, marker = marker_filter
    worktrees = worktrees_of(repository)
    worktree = worktrees.open("fix")
    state = repository / ".git" / "worktrees" / "fix"
    (state / "config.worktree").write_text(configuration)
    os.utime(worktree.folder / "main.py", (1, 1))
    with pytest.raises(WorktreeError, match="may name programs"):
        worktrees.state(worktree)
    assert not marker.exists()


def test_configuration_of_the_main_checkout_that_a_command_wrote_names_no_program(
    repository: Path, marker_filter: tuple[str, Path]
) -> None:
    path = repository / ".git" / "config.worktree"
    path.write_text(marker_filter[0])
    mark_tainted(path, repository, unseen=True)
    with pytest.raises(WorktreeError, match="may name programs"):
        worktrees_of(repository)


def test_replaced_link_to_the_repository_is_not_followed(repository: Path, tmp_path: Path) -> None:
    """A command may replace the link after the check."""
    other = create_repository(tmp_path.resolve() / "other")
    checkout = find_checkout(worktrees_of(repository).open("fix").folder, is_trusted=True)
    git(other, "config", "remote.other.url", "/other")
    (checkout.store / "commondir").write_text(str(other / ".git"))
    assert checkout.run("config", "remote.other.url").output == ""


def test_sparse_worktrees_can_be_used(repository: Path) -> None:
    git(repository, "sparse-checkout", "set", "src")
    worktrees = worktrees_of(repository)
    assert not worktrees.state(worktrees.open("fix")).changed_files


@pytest.mark.parametrize("tool", ["filter", "merge"])
def test_programs_in_the_configuration_of_a_trusted_repository_do_not_run(
    repository: Path, tmp_path: Path, tool: str
) -> None:
    """These programs may be files that commands can change."""
    marker = tmp_path / "ran"
    key = "clean" if tool == "filter" else "driver"
    (repository / ".gitattributes").write_text(f"*.py {tool}=own\n")
    commit_all(repository, "attributes")
    git(repository, "config", f"{tool}.own.{key}", f"touch {marker}; cat")
    worktrees = worktrees_of(repository)
    (worktrees.open("fix").folder / "main.py").write_text("value = 2\n")
    worktrees.commit(worktrees.find("fix"), "two")
    (repository / "main.py").write_text("value = 3\n")
    git(repository, "-c", "filter.own.clean=", "commit", "-q", "-a", "-m", "three")
    with pytest.raises(WorktreeError, match="conflicts"):
        worktrees.merge(worktrees.find("fix"))
    assert not marker.exists()


def test_configuration_of_a_repository_inside_a_worktree_is_not_read(
    repository: Path, tmp_path: Path
) -> None:
    """Commands can create such a repository, and register it as a submodule."""
    marker = tmp_path / "ran"
    worktrees = worktrees_of(repository)
    folder = worktrees.open("fix").folder
    inner = create_repository(folder / "inner")
    git(inner, "config", "filter.own.clean", f"touch {marker}; cat")
    (inner / ".gitattributes").write_text("* filter=own\n")
    git(folder, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    os.utime(inner / "main.py", (1, 1))
    (folder / "main.py").unlink()
    (folder / "new").mkdir()
    (folder / "new" / "file.py").write_text("new = 1\n")
    assert worktrees.commit(worktrees.find("fix"), "changes")
    names = git(folder, "show", "--format=", "--name-status", "HEAD").split()
    assert names == ["A", "inner", "D", "main.py", "A", "new/file.py"]
    assert not marker.exists()
