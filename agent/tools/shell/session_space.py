"""Shared resources of a conversation's commands: /tmp, and a network for background commands."""

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent.records import frozen
from agent.security.files.folder_tree import remove_folder
from agent.security.files.private_folder import ProcessFolder
from agent.security.sandbox.base import SharesNetwork
from agent.security.sandbox.session_network import SessionNetwork

# A conversation's /tmp is emptied after it was silent for this long.
MAX_IDLE_S = 7 * 86_400.0


# This file grows by a byte with each command, which locks it while running. It is hidden from
# commands.
_COUNT_FILE = "commands"
_COUNT_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class CommandCount:
    """Number of commands in a space; `space` is the identity of the space."""

    space: int
    commands: int

    def next(self) -> "CommandCount":
        return CommandCount(self.space, self.commands + 1)


@dataclass(slots=True)
class _Space:
    folder: Path
    network: SessionNetwork | None = None


class SessionSpaces:
    """Spaces of all conversations; every method may block and is thread-safe.

    `root` is the folder with each /tmp and survives restarts; without it, `close` deletes them.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = None if root is None else Path(os.path.realpath(root))
        self._own_root = ProcessFolder("kore-tmp-")
        self._spaces: dict[str, _Space] = {}
        self._lock = threading.Lock()

    def folder(self, session: str) -> Path:
        """Return the parent of the session's `tmp` and `shm`; see `SandboxCommand`.

        Raises OSError.
        """
        with self._lock:
            return self._space(session).folder

    def existing_folder(self, session: str) -> Path | None:
        """Like `folder`, without creating it; None if the session certainly has none."""
        with self._lock:
            return self._folder_of(session)

    @contextmanager
    def command(self, session: str, *, creates_space: bool) -> Iterator[None]:
        """Count a command of the session, across all processes.

        Without `creates_space`, nothing is counted in a session that has no space. Raises OSError.
        """
        folder = self.folder(session) if creates_space else self.existing_folder(session)
        with _open_count(folder) as count:
            if count is not None:
                fcntl.flock(count, fcntl.LOCK_SH)
                os.write(count, b".")
            yield

    def quiet_count(self, session: str) -> CommandCount | None:
        """Return the number of commands that the session has begun.

        Return None while a command runs in any process, or if the number is unknown. While the
        number stays the same, no command has changed the space.
        """
        try:
            with _open_count(self.existing_folder(session)) as count:
                if count is None:
                    return None
                fcntl.flock(count, fcntl.LOCK_EX | fcntl.LOCK_NB)
                info = os.fstat(count)
                return CommandCount(info.st_ino, info.st_size)
        except OSError:
            return None

    def network(self, session: str) -> SessionNetwork | None:
        """Return the session's network; None if it has none."""
        with self._lock:
            space = self._spaces.get(session)
            return None if space is None else space.network

    def open_network(self, session: str, sandbox: SharesNetwork) -> None:
        """Give the session a network from now on. Raises OSError."""
        with self._lock:
            space = self._space(session)
            if space.network is None:
                space.network = sandbox.open_network()

    def end(self, session: str) -> None:
        """Release the space of a session whose commands have ended."""
        with self._lock:
            space = self._spaces.pop(session, None)
            folder = self._folder_of(session) if space is None else space.folder
        if space is not None and space.network is not None:
            space.network.close()
        if folder is not None:
            remove_folder(folder)

    def close(self) -> None:
        """Close all networks; files in a `root` remain."""
        with self._lock:
            spaces, self._spaces = self._spaces, {}
        for space in spaces.values():
            if space.network is not None:
                space.network.close()
        self._own_root.close()

    def _space(self, session: str) -> _Space:
        space = self._spaces.get(session)
        if space is None:
            if not self._spaces and self._root is not None:
                _remove_old(self._root)
            folder = (self._root or self._own_root.path()) / _name(session)
            space = self._spaces[session] = _Space(folder)
        space.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (space.folder, space.folder / "tmp", space.folder / "shm"):
            folder.mkdir(mode=0o700, exist_ok=True)
        os.utime(space.folder)
        return space

    def _folder_of(self, session: str) -> Path | None:
        if self._root is not None:
            return self._root / _name(session)
        return self._own_root.path() / _name(session) if self._own_root.is_made else None


@contextmanager
def _open_count(folder: Path | None) -> Iterator[int | None]:
    """Open the file that counts the commands of a space; None without a space.

    Raises OSError.
    """
    try:
        fd = None if folder is None else os.open(folder / _COUNT_FILE, _COUNT_FLAGS, 0o600)
    except FileNotFoundError:
        fd = None
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def _name(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()[:24]


def _remove_old(root: Path) -> None:
    with suppress(FileNotFoundError), os.scandir(root) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - MAX_IDLE_S:
                remove_folder(Path(entry.path))
