"""Identity of the folder that a conversation works in.

A path does not identify a folder: a command in the parent folder may replace it with a link, and
code that follows the path then works in the target of the link. A conversation therefore also
stores the device and inode of its folder. Code that works there opens the folder by its real path,
without following links, and compares. A start folder inside it has no identity: commands may
replace it with another folder of the project, but not with a link to a folder outside.
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
    """Error for a conversation folder that was replaced or removed."""

    def __init__(self, path: Path) -> None:
        super().__init__(render_prompt("folder_replaced", folder=path))
        self.path = path


@frozen
class FolderIdentity:
    """Identity of a folder: real path, device and inode."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "FolderIdentity":
        """Return the identity of the folder at a real path.

        Raises `FolderReplaced` if a link or something other than a folder is there.
        """
        with open_folder(path) as descriptor:
            info = os.fstat(descriptor)
        return cls(path, info.st_dev, info.st_ino)

    def check(self) -> None:
        """Raise `FolderReplaced` if another folder, or none, is at the path."""
        with open_folder(self.path, self):
            pass


def check_folder(identity: FolderIdentity | None) -> None:
    """Raise `FolderReplaced` if the folder was replaced. Without an identity, do nothing."""
    if identity is not None:
        identity.check()


def is_in_place(identity: FolderIdentity | None) -> bool:
    """Return whether the same folder is still at its path; true without an identity."""
    try:
        check_folder(identity)
    except FolderReplaced:
        return False
    return True


def real_start_folder(root: Path, folder: Path | None) -> Path | None:
    """Return the folder inside `root` where relative paths start; None for `root` itself.

    Work starts in `root` if the folder is missing, or if it or one of its parents was replaced by a
    link. Call this for each message, because commands can write there.
    """
    if folder is None or root not in folder.parents:
        return None
    try:
        with open_folder_beneath(folder):
            return folder
    except OSError:
        return None


@contextmanager
def open_folder(path: Path, identity: FolderIdentity | None = None) -> Iterator[int]:
    """Open the folder at a real path without following links and yield its O_PATH descriptor.

    Raises `FolderReplaced` if it does not exist or does not match `identity`.
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
