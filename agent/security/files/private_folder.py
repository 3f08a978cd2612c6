"""Folders that only their owner can access, and temporary folders of a process.

A temporary folder is locked while its process runs. Other processes can therefore tell whether a
folder is in use or was left by a killed process, even if a process id is reused.
"""

import fcntl
import os
import stat
import tempfile
import threading
import weakref
from pathlib import Path

from agent.security.files.folder_tree import remove_folder


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for the owner only (0700).

    Raises `OSError`. Existing folders do not change. `mkdir(mode=0o700, parents=True)` would make
    the parents readable by every user.
    """
    for parent in reversed((folder, *folder.parents)):
        if not parent.is_dir():
            parent.mkdir(mode=0o700, exist_ok=True)


_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ProcessFolder:
    """Private folder in the system's temporary folder, created on first use.

    Its name begins with `prefix`, as do the names of folders checked for removal.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._removal: weakref.finalize[..., ProcessFolder] | None = None

    @property
    def is_made(self) -> bool:
        return self._path is not None

    def path(self) -> Path:
        """Return the folder, created on the first call.

        The first call also removes the folders that killed processes left, and may block. Raises
        OSError.
        """
        with self._lock:
            if self._path is None:
                above = Path(os.path.realpath(tempfile.gettempdir()))
                remove_abandoned(above, self._prefix)
                self._path, descriptor = _make(above, self._prefix)
                # Remove the folder even if `close` is never called.
                self._removal = weakref.finalize(self, _remove, self._path, descriptor)
            return self._path

    def close(self) -> None:
        """Remove the folder; the next call of `path` creates a new one."""
        with self._lock:
            removal, self._removal, self._path = self._removal, None, None
        if removal is not None:
            removal()


def remove_abandoned(above: Path, prefix: str) -> None:
    """Remove our unlocked folders with this prefix."""
    with os.scandir(above) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in names:
        folder = above / name
        try:
            descriptor = os.open(folder, _OPENED)
        except OSError:
            continue  # a link, a file, or another user's
        try:
            if _is_ours(descriptor):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(folder)
        except BlockingIOError:
            continue  # in use
        finally:
            os.close(descriptor)


def _make(above: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        try:
            descriptor = os.open(folder, _OPENED)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another process may have removed it as abandoned before it was locked.
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    info = os.fstat(descriptor)
    return info.st_uid == os.geteuid() and stat.S_IMODE(info.st_mode) == stat.S_IRWXU


def _remove(folder: Path, descriptor: int) -> None:
    remove_folder(folder)
    os.close(descriptor)
