"""Lock for one poller per bot on a machine, named after the token's hash.

Telegram ends one of two polls for the same bot (409), and each gets only some of the updates. The
lock is outside Kore's own folders.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def poll_lock(token: str, server: str) -> Iterator[str | None]:
    """Claim a server's bot until the context or the process ends.

    Yields a description of the current holder, or None. If the lock file cannot be opened, polling
    is allowed.
    """
    try:
        descriptor = os.open(_file(token, server), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield os.pread(descriptor, 100, 0).decode("utf-8", "replace") or "another Kore"
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"Kore (pid {os.getpid()})".encode(), 0)
        yield None
    finally:
        os.close(descriptor)


def _file(token: str, server: str) -> Path:
    """Return the lock file, in a folder that only this user can write to. Raises `OSError`."""
    root = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(root) / f"kore-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise PermissionError(f"{folder} is not mine alone")
    return folder / hashlib.sha256(f"kore bot {token} {server}".encode()).hexdigest()[:32]
