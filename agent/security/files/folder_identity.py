"""The folder that a conversation works in, told from whatever takes its place later.

A path is no folder: a command in the folder above may put a link there, and everything that follows
the path then works where the link leads. So a conversation keeps the device and inode of its folder
as well, and what works there opens it by its real path, through no link, and compares.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath


class FolderReplaced(ToolError):
    """Something else lies where the folder of a conversation was, or nothing does."""

    def __init__(self, path: Path) -> None:
        super().__init__(render_prompt("folder_replaced", folder=path))
        self.path = path


@frozen
class FolderIdentity:
    """A folder by its real path, its device and its inode."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "FolderIdentity":
        """Return the identity of a folder by its real path. Raises `FolderReplaced` where a link
        or no folder lies."""
        with open_folder(path) as descriptor:
            info = os.fstat(descriptor)
        return cls(path, info.st_dev, info.st_ino)

    def check(self) -> None:
        """Raise `FolderReplaced` unless this very folder lies at its path."""
        with open_folder(self.path, self):
            pass


def check_folder(identity: FolderIdentity | None) -> None:
    """Raise `FolderReplaced` unless a folder is in its place, as far as its identity is known."""
    if identity is not None:
        identity.check()


def is_in_place(identity: FolderIdentity | None) -> bool:
    """Return whether a folder is in its place, as far as its identity is known."""
    try:
        check_folder(identity)
    except FolderReplaced:
        return False
    return True


@contextmanager
def open_folder(path: Path, identity: FolderIdentity | None = None) -> Iterator[int]:
    """A descriptor (O_PATH) of the folder at a real path, through no link.

    With `identity` it is the folder that this was taken of. Raises `FolderReplaced`.
    """
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(open_folder_beneath(path))
        except OSError as exc:
            raise FolderReplaced(path) from exc
        info = os.fstat(descriptor)
        numbers = (info.st_dev, info.st_ino)
        if identity is not None and numbers != (identity.device, identity.inode):
            raise FolderReplaced(path)
        yield descriptor
