"""State of a project's repository: the branch and the number of changed files.

Git may run programs that a repository configures. Therefore it runs only in the sandbox for
commands, which can read the repository and has no network access. Without a sandbox, only the
branch is reported, as read from a file.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from agent.context.project.instructions import project_folders
from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.security.files.safe_open import read_regular
from agent.security.sandbox.base import Sandbox, SandboxCommand, ShowsFolders

_TIMEOUT_S = 2
_HEAD_LIMIT_BYTES = 1_000
_BRANCH = "ref: refs/heads/"
# Git accepts sentences as names; other branch names are shown only to people.
_BRANCH_NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_STATUS = (
    f"exec git -c core.fsmonitor=false -c core.hooksPath={os.devnull}"
    " status --porcelain -z --no-renames --ignore-submodules=all"
)
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def describe_repository(root: Path, choose_sandbox: Callable[[], Sandbox | None]) -> str:
    """Return a sentence for the model, or '' outside of a repository. May block briefly."""
    head = find_head(root)
    branch = _read_branch(head) if head is not None else None
    if head is None or branch is None:
        return ""
    changes = _count_changes(root.resolve(), head.parent.parent, choose_sandbox())
    return render_prompt("project_git", branch=branch, changes=_in_words(changes))


def find_head(root: Path) -> Path | None:
    """Return the file that names the branch, or None outside of a repository."""
    folders = project_folders(root.resolve(), Path.home())
    # The home folder is not a project, even if it is a repository.
    store = folders[-1] / ".git" if folders else None
    return None if store is None or store.is_symlink() or not store.is_dir() else store / "HEAD"


def _read_branch(head: Path) -> str | None:
    """Return the current branch or commit, or None if the file is invalid."""
    try:
        data = read_regular(head, _HEAD_LIMIT_BYTES, follow_links=False)
    except OSError:
        return None
    text = data.decode("utf-8", "replace").strip()
    if text.startswith(_BRANCH):
        name = text.removeprefix(_BRANCH)
        return f"branch {name}" if _BRANCH_NAME.fullmatch(name) else "a branch with a longer name"
    return f"no branch, at commit {text[:12]}" if _COMMIT.fullmatch(text) else None


def _count_changes(root: Path, top: Path, sandbox: Sandbox | None) -> int | None:
    """Return the number of files that git lists, or None without a suitable sandbox."""
    if sandbox is None or not sandbox.confines or not isinstance(sandbox, ShowsFolders):
        return None
    from agent.security.sandbox.brief_run import run_briefly

    job = SandboxCommand(_STATUS, root, top, read_only=True, variables=_VARIABLES)
    count = 0

    def add(data: bytes) -> None:
        nonlocal count
        count += data.count(b"\0")

    try:
        with sandbox.prepare(job) as spawn:
            code = run_briefly(spawn, _TIMEOUT_S, add)
    except (OSError, ToolError):
        return None
    return count if code == 0 else None


def _in_words(changes: int | None) -> str:
    if changes is None:
        return "its changed files were not counted"
    if changes == 0:
        return "no changed files"
    return f"{changes} changed or new {'file' if changes == 1 else 'files'} (the person's)"
