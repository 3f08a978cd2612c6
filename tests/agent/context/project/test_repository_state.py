"""The branch and the changed files of a project, found without running anything of it."""

import subprocess
from pathlib import Path

import pytest

from agent.context.project.context import ProjectContext
from agent.context.project.repository_state import describe_repository


def _git(root: Path, *words: str) -> None:
    person = ("-c", "user.name=A", "-c", "user.email=a@example.test")
    subprocess.run(["git", *person, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("print(1)\n")
    _git(root, "init", "-b", "topic/one")
    _git(root, "add", ".")
    _git(root, "commit", "-m", "first")
    return root


def test_the_branch_and_changes_are_told_with_the_tree_once(repository: Path) -> None:
    (repository / "src" / "a.py").write_text("print(2)\n")
    (repository / "new file.txt").write_text("x")
    project = ProjectContext(repository)
    first = project.news()
    assert first is not None
    assert "git: branch topic/one; 2 changed or new files" in first.text
    assert project.news() is None


def test_a_folder_of_a_repository_is_a_part_of_it(repository: Path) -> None:
    assert "topic/one; no changed files" in describe_repository(repository / "src")


def test_without_a_branch_the_commit_is_named(repository: Path) -> None:
    _git(repository, "checkout", "--detach")
    assert "branch no branch, " not in describe_repository(repository)
    assert "git: no branch, at commit " in describe_repository(repository)


def test_nothing_is_told_outside_of_a_repository(tmp_path: Path) -> None:
    assert describe_repository(tmp_path) == ""


@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.x.clean", "core.hooksPath"])
def test_a_repository_that_names_programs_is_not_asked(repository: Path, key: str) -> None:
    mark = repository.parent / "ran"
    program = repository.parent / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=x\n")
    _git(repository, "config", key, str(program))
    (repository / "src" / "a.py").write_text("print(3)\n")
    assert describe_repository(repository) == ""
    assert not mark.exists()


def test_filters_of_the_person_do_not_run_either(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = repository.parent / "home"
    home.mkdir()
    mark = repository.parent / "ran"
    (home / ".gitconfig").write_text(f'[filter "x"]\nclean = touch {mark}; cat\n')
    monkeypatch.setenv("HOME", str(home))
    (repository / ".gitattributes").write_text("* filter=x\n")
    (repository / "src" / "a.py").write_text("print(4)\n")
    assert "2 changed or new files" in describe_repository(repository)
    assert not mark.exists()


def test_of_the_home_folder_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    assert describe_repository(tmp_path) == ""
