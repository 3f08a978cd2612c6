"""Whether looking at a git repository runs something: its configuration may name programs."""

import os
import re
from pathlib import Path

LIMIT_BYTES = 65_536
# Keys whose values git runs or obeys when it only looks, and files that bring more of them.
RUNS = re.compile(
    rb"^\s*(?:\[[^\]]*\]\s*)?(?:fsmonitor|textconv|command|external|smudge|clean|process|program"
    rb"|pager|editor|sshcommand|hookspath|worktree|attributesfile|excludesfile|path|cmd|helper"
    rb"|uploadpack|receivepack|partialclone|promisor|vcs|gitproxy|askpass)\s*(?:=|$)"
    rb"|^\s*\[\s*include",
    re.IGNORECASE | re.MULTILINE,
)


def is_safe_repository(folder: str, root: str) -> bool:
    """Whether git, started in `folder` below `root`, only looks when it is told to look.

    False for a repository that names programs, that keeps its data elsewhere, has submodules, or
    is a bare one that could be made by writing plain files. Both paths are real.
    """
    while folder == root or folder.startswith(root + "/"):
        if os.path.exists(f"{folder}/HEAD") and os.path.exists(f"{folder}/objects"):
            return False
        git = f"{folder}/.git"
        if os.path.lexists(git):
            return _is_plain(git)
        folder = os.path.dirname(folder)
    return True


def _is_plain(git: str) -> bool:
    if os.path.islink(git) or not os.path.isdir(git):
        return False
    if any(
        os.path.lexists(f"{git}/{name}") for name in ("modules", "config.worktree", "commondir")
    ):
        return False
    try:
        config = Path(git, "config").read_bytes()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    # A backslash continues a line or hides a letter.
    return len(config) <= LIMIT_BYTES and b"\\" not in config and not RUNS.search(config)
