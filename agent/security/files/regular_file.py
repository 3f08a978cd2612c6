"""Reading of regular files from untrusted folders without blocking.

A name such as `AGENTS.md` or `.git/HEAD` may be a pipe, a device or a kernel file: opening a pipe
waits for a writer, and a device never ends. Kore reads only regular files on a disk.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from agent.security.files.safe_open import open_folder_beneath, refuse_kernel_view

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegularFile(OSError):
    """Error for a pipe, device, socket or folder where a regular file is expected."""


def open_regular(
    path: str | Path, *, folder: int | None = None, follow_links: bool = True
) -> BinaryIO:
    """Open a regular file for reading, relative to the open `folder` if one is given.

    Without `follow_links`, a link at the end of the path is rejected. Never waits for another
    process. Raises OSError, `NotRegularFile` for anything but a regular file.
    """
    flags = _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularFile(errno.EINVAL, "not a regular file", str(path))
        refuse_kernel_view(descriptor)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_regular_beneath(path: Path) -> BinaryIO:
    """Open a regular file by its real path, which may contain no link. Raises OSError."""
    with open_folder_beneath(path.parent) as folder:
        return open_regular(path.name, folder=folder, follow_links=False)


def read_regular(path: str | Path, limit_bytes: int, *, follow_links: bool = True) -> bytes:
    """Return at most `limit_bytes` bytes from the beginning of a regular file. Raises OSError."""
    with open_regular(path, follow_links=follow_links) as file:
        return file.read(limit_bytes)
