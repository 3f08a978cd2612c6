"""Files that were written while strangers' words were in the conversation.

The mark is an extended attribute, so it stays with a file that is moved. The workspace's own
folder is marked too, once, for whoever cannot tell which files a command has read. Where the
file system knows no such attributes nothing is marked (docs/security.md says so).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.types import Taint

_NAME = "user.kore.untrusted"


def mark(path: Path, workspace: Path) -> None:
    """`path`, in `workspace`, holds strangers' words from now on."""
    for marked in (path, workspace):
        with suppress(OSError):
            os.setxattr(marked, _NAME, b"1", follow_symlinks=False)


def mark_changed(workspace: Path, since: float) -> None:
    """Every file of the workspace that was changed since then (Unix time) holds strangers' words.

    For a command that could fetch them and has ended. It cannot set back the time that is looked
    at, that of the last change of anything about a file. Walks the whole workspace.
    """
    for folder, _, names in os.walk(workspace):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError):
                if path.lstat().st_ctime >= since:
                    mark(path, workspace)


def is_marked(path: Path) -> bool:
    """Whether the file, or any file of the folder if it is a workspace, holds strangers' words."""
    try:
        return os.getxattr(path, _NAME, follow_symlinks=False) == b"1"
    except OSError:
        return False


@contextmanager
def carried(path: Path, workspace: Path, taint: frozenset[Taint]) -> Iterator[None]:
    """Around a write to `path`: a mark that it has stays, and strangers' words bring one."""
    marked = "untrusted" in taint or is_marked(path)
    yield
    if marked:
        mark(path, workspace)
