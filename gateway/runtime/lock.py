"""Lock file of the process that owns the data; the system releases it when the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t


class AlreadyRunning(ConfigError):
    """Raised when another process owns the data."""

    code = "locked"


@contextmanager
def acquire(path: Path, what: str) -> Iterator[bool]:
    """Hold the lock, and so own the data, while the context is open.

    Yields True if the previous owner ended without releasing it, so that its line is still in the
    file. Raises `AlreadyRunning` with the name of the owner.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "another kore"
            raise AlreadyRunning(
                t("{parent} is in use by {owner}", parent=path.parent, owner=owner),
                hint=t("Stop that process first, or use another folder (KORE_HOME)."),
            ) from None
        unclean = bool(file.read())
        _write(file.fileno(), f"{what} (pid {os.getpid()})\n")
        yield unclean
        _write(file.fileno(), "")


def _write(descriptor: int, line: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, line.encode(), 0)
