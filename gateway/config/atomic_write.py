"""Atomic writes of configuration files: private to the owner, one writer at a time."""

import errno
import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config.json_files.document import private
from gateway.config.references import read_secrets

# A file that is itself a mount point, as in a container, cannot be replaced, and its folder may
# refuse further files.
_NOT_REPLACEABLE = frozenset({errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a folder's files against other callers while the context is open."""
    folder = path.resolve().parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        message = t("{folder}: cannot be written to: {reason}", folder=folder, reason=exc.strerror)
        raise ConfigError(message) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file atomically; its mode is preserved, and a link remains a link.

    A new file is private to its owner. A file that cannot be replaced is overwritten in place.
    Raises `ConfigError`.
    """
    target = path.resolve()
    remove_unfinished(target.parent, target.name)
    new_file = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        # The file is locked until it has its name, because an unlocked file counts as abandoned.
        with os.fdopen(_new_locked_file(new_file), "wb") as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
            new_file.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as exc:
        with suppress(OSError):
            new_file.unlink(missing_ok=True)
        if exc.errno in _NOT_REPLACEABLE and _overwrite(target, text):
            return
        message = t("{path}: cannot be written: {reason}", path=path, reason=exc.strerror)
        raise ConfigError(message) from None


def _overwrite(file: Path, text: str) -> bool:
    """Overwrite a file in place, which a crash may leave half done.

    Return False if that is not possible.
    """
    try:
        with file.open("r+b") as opened:
            opened.write(text.encode())
            opened.truncate()
            opened.flush()
            os.fsync(opened.fileno())
    except OSError:
        return False
    return True


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove new files that killed processes have left in a folder.

    Removes those for the file `name`, or for any file. Links, other users' files and files in
    progress are not removed.
    """
    pattern = re.compile(
        rf"\.{'.+' if name is None else re.escape(name)}\.[0-9a-f]{{8}}\.new", re.DOTALL
    )
    with suppress(OSError):
        for left in [text for text in os.listdir(folder) if pattern.fullmatch(text)]:
            with suppress(OSError):
                _remove_abandoned(folder / left)


def _new_locked_file(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another writer may have removed the file as abandoned before it was locked.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    finally:
        os.close(descriptor)


def drop_secrets(path: Path, names: Collection[str]) -> None:
    """Remove these names from secrets.json. Raises `ConfigError`."""
    if not names:
        return
    remaining = {name: value for name, value in read_secrets(path).items() if name not in names}
    write_atomic(path, json.dumps(remaining, indent=2, ensure_ascii=False) + "\n")


def keep_secrets(path: Path, more: Mapping[str, str]) -> None:
    """Add to secrets.json, or replace existing values. Raises `ConfigError`."""
    if not more:
        return
    secrets_kept = read_secrets(path)
    write_atomic(path, json.dumps({**secrets_kept, **more}, indent=2, ensure_ascii=False) + "\n")
    if not private(path):
        path.chmod(0o600)
