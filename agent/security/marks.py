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
# Of what a command has changed nobody saw beforehand what it would be.
_KNOWN, _UNSEEN = b"1", b"2"


def mark(path: Path, workspace: Path, *, unseen: bool = False) -> None:
    """`path`, in `workspace`, holds strangers' words from now on."""
    for marked, value in ((workspace, _KNOWN), (path, _UNSEEN if unseen else _KNOWN)):
        with suppress(OSError):
            os.setxattr(marked, _NAME, value, follow_symlinks=False)


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
                    mark(path, workspace, unseen=True)


def is_marked(path: Path) -> bool:
    """Whether the file, or any file of the folder if it is a workspace, holds strangers' words."""
    return _mark_of(path) in (_KNOWN, _UNSEEN)


def is_unseen(path: Path) -> bool:
    """Whether a command has written them there, so that no tool could ask a person before."""
    return _mark_of(path) == _UNSEEN


@contextmanager
def carried(path: Path, workspace: Path, taint: frozenset[Taint]) -> Iterator[None]:
    """Around a write to `path`: a mark that it has stays, and strangers' words bring one."""
    before = _mark_of(path)
    yield
    if "untrusted" in taint or before in (_KNOWN, _UNSEEN):
        mark(path, workspace, unseen=before == _UNSEEN)


def _mark_of(path: Path) -> bytes:
    try:
        return os.getxattr(path, _NAME, follow_symlinks=False)
    except OSError:
        return b""
