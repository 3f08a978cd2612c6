"""Bytes on the disk: opened without following links, written all or nothing.

Every path given here is already resolved, so no component of it is a link. One that has become
a link since then is an attempt to lead the tool elsewhere, and is refused.
"""

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agent.errors import ToolError

T = TypeVar("T")

# Linux opens folders for passing through even where they cannot be listed.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread; when cancelled, wait until it is settled first.

    A write that has begun is thus never under way after its call has ended.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@contextmanager
def opened_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `path`, reached without following links."""
    fd = os.open(path.anchor, _THROUGH)
    try:
        for part in path.parts[1:]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
            inner = os.open(part, _THROUGH, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def read(path: Path, limit_bytes: int) -> bytes:
    """All bytes of an ordinary file. Raises ToolError, also when it is over the limit."""
    with explained(path), opened_folder(path.parent) as folder:
        _regular(path.name, folder)
        fd = os.open(path.name, os.O_RDONLY | _PLAIN, dir_fd=folder)
        with open(fd, "rb") as file:
            info = os.fstat(fd)
            data = file.read(limit_bytes + 1)
            if len(data) > limit_bytes:
                size = max(info.st_size, len(data))
                raise ToolError(
                    f"{path} has {size:,} bytes; files over {limit_bytes:,} are not opened."
                )
            return data


def exists(path: Path) -> bool:
    """Whether there is something at `path`."""
    return os.path.lexists(path)


def replace(path: Path, data: bytes) -> None:
    """Make `path` hold exactly `data`: by a new file that takes its place, or not at all.

    Parents are created; the mode and owner of an existing file stay. Raises ToolError.
    """
    with explained(path), opened_folder(path.parent, create=True) as folder:
        old = _regular(path.name, folder)
        name = f".{secrets.token_hex(8)}.kore-new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
        fd = os.open(name, flags, 0o600 if old else 0o666, dir_fd=folder)
        try:
            with open(fd, "wb") as file:
                if old:
                    _keep_owner(fd, old)
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # After the rename there is nothing of this name any more.
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        _settle(path.parent)


def append(path: Path, data: bytes) -> None:
    """Add `data` at the end of `path`; the file and its parents are created. Raises ToolError."""
    with explained(path), opened_folder(path.parent, create=True) as folder:
        _regular(path.name, folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN
        with open(os.open(path.name, flags, 0o666, dir_fd=folder), "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns what the system says about a path into a sentence for the model."""
    try:
        yield
    except FileNotFoundError as exc:
        raise ToolError(f"{path} does not exist.") from exc
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path} passes through something that is not a folder.") from exc
        text = exc.strerror or type(exc).__name__
        raise ToolError(f"{path} cannot be used: {text.lower()}.") from exc


def _regular(name: str, folder: int) -> os.stat_result | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode):
        if stat.S_ISDIR(info.st_mode):
            raise ToolError(f"{name!r} is a folder, not a file; list_dir shows what is in it.")
        raise ToolError(f"{name!r} is not an ordinary file.")
    return info


def _keep_owner(fd: int, old: os.stat_result) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _settle(folder: Path) -> None:
    # The rename itself is only safe against a power cut once the folder is on the disk.
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
