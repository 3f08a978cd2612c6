"""Repositories for tests of worktrees."""

import subprocess
from pathlib import Path

from agent.worktrees.git import find_checkout
from agent.worktrees.worktrees import Worktrees

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ran.stdout


def create_repository(folder: Path) -> Path:
    """Return a repository with one commit of `main.py` on the branch main."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "main.py").write_text("value = 1\n")
    commit_all(folder, "first")
    return folder


def commit_all(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", message)


def worktrees_of(folder: Path, parent: Path | None = None) -> Worktrees:
    return Worktrees(find_checkout(folder, is_trusted=True), parent)
