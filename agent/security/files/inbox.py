"""Where files lie that people send: each person's beside what Kore remembers of them."""

from pathlib import Path

MEMORY_FOLDER = "memory"
INBOX_FOLDER = "inbox"


def user_inbox_dir(workspace: Path, memory: Path) -> Path:
    """The folder for whoever `memory` is of: who may see the one may see the other.

    Raises `ValueError` for a memory file that is not in the workspace's memory folder.
    """
    return workspace / INBOX_FOLDER / memory.parent.relative_to(workspace / MEMORY_FOLDER)
