"""The branch of a project and how many files differ from its last commit, told once.

git is asked only where it runs nothing that the repository names: no hook, no filter, no
fsmonitor. Elsewhere nothing is told.
"""

import os
import subprocess
from pathlib import Path

from agent.context.project.instructions import project_folders
from agent.prompts import render_prompt
from agent.security.sandbox.trusted_programs import find_trusted_program
from agent.security.shell.git_safety import is_safe_repository

_TIMEOUT_S = 2
_HEAD_LIMIT_BYTES = 1_000
_BRANCH = "ref: refs/heads/"
_STATUS = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    *("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"),
)
# Nothing of the person's own configuration runs for a strange repository either.
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def describe_repository(root: Path) -> str:
    """A sentence, or nothing outside of a repository that may be looked at. May block shortly."""
    real = root.resolve()
    folders = project_folders(real, Path.home())
    # The home folder is no project, though it may be a repository.
    top = folders[-1] if folders else None
    if top is None or not (top / ".git").is_dir() or not is_safe_repository(str(real), str(top)):
        return ""
    try:
        with (top / ".git" / "HEAD").open("rb") as file:
            head = file.read(_HEAD_LIMIT_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    is_branch = head.startswith(_BRANCH)
    branch = f"branch {head[len(_BRANCH) :]}" if is_branch else f"no branch, at commit {head[:12]}"
    branch = "".join(c if c.isprintable() else "?" for c in branch)
    changes = _count_changes(real, top)
    return render_prompt("project_git", branch=branch, changes=_in_words(changes))


def _count_changes(root: Path, top: Path) -> int | None:
    program = find_trusted_program("git", (top,))
    if program is None:
        return None
    environment = {**_ENVIRONMENT, "PATH": os.defpath, "HOME": os.devnull}
    try:
        done = subprocess.run(
            [program, *_STATUS],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.count(b"\0") if done.returncode == 0 else None


def _in_words(changes: int | None) -> str:
    if changes is None:
        return "its changed files were not counted"
    if changes == 0:
        return "no changed files"
    return f"{changes} changed or new {'file' if changes == 1 else 'files'} (the person's)"
