"""Writes configuration files: all or nothing, for their owner only, one writer at a time."""

import fcntl
import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import ConfigError
from agent.i18n import t
from gateway.config.json_files.document import private
from gateway.config.references import read_secrets


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock a folder's files against other callers until the block ends."""
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
    """Put a new file in a file's place at once; its mode stays, a link to it stays a link.

    A file that was not there is for its owner only. Raises `ConfigError`.
    """
    target = path.resolve()
    new_file = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
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
        message = t("{path}: cannot be written: {reason}", path=path, reason=exc.strerror)
        raise ConfigError(message) from None


def drop_secrets(path: Path, names: Collection[str]) -> None:
    """Take these out of secrets.json. Raises `ConfigError`."""
    if not names:
        return
    remaining = {name: value for name, value in read_secrets(path).items() if name not in names}
    write_atomic(path, json.dumps(remaining, indent=2, ensure_ascii=False) + "\n")


def keep_secrets(path: Path, more: Mapping[str, str]) -> None:
    """Add to secrets.json, or replace what is there. Raises `ConfigError`."""
    if not more:
        return
    secrets_kept = read_secrets(path)
    write_atomic(path, json.dumps({**secrets_kept, **more}, indent=2, ensure_ascii=False) + "\n")
    if not private(path):
        path.chmod(0o600)
