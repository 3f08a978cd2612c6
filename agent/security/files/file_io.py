"""File access without following links; writes are atomic.

Every path passed in is already resolved, so it contains no link. If a component has become a link
since then, somebody is trying to redirect the tool and access is rejected; see
`agent.security.files.safe_open`.

A file with several hard links may belong to something outside the workspace. It is read only if its
mode lets every user read it, and never changed in place.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Literal, TypeVar
from weakref import WeakValueDictionary

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.paths import folded_path
from agent.security.files.quarantine import quarantine_created
from agent.security.files.reading_rights import ReadingRights
from agent.security.files.safe_open import (
    LISTED,
    creating_as_owner,
    open_folder_beneath,
    refuse_kernel_view,
)

T = TypeVar("T")

_CHUNK_BYTES = 256 * 1024

_PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class FileMissing(ToolError):
    """Error for a path that does not exist."""


class FileTooLarge(ToolError):
    """Error for a file over the limit."""


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread and wait for it to finish, even after cancellation.

    A write that has begun is therefore never in progress after its call has ended.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def read(path: Path, limit_bytes: int, rights: ReadingRights | None = None) -> bytes:
    """Return all bytes of a regular file; with `rights`, only if their user can read it.

    Raises ToolError, also for a file over the limit.
    """
    with _readable(path, rights) as file:
        data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            size = max(os.fstat(file.fileno()).st_size, len(data))
            raise FileTooLarge(
                f"{path} has {size:,} bytes; the limit for opening files is {limit_bytes:,}."
            )
        return data


@frozen
class FilePart:
    """Part of a file. `version` changes when the file changes."""

    data: bytes
    size_bytes: int
    version: str


def read_part(path: Path, offset: int, limit_bytes: int) -> FilePart:
    """Return at most `limit_bytes` bytes of a regular file from `offset`. Raises ToolError."""
    with _readable(path) as file:
        info = os.fstat(file.fileno())
        file.seek(min(offset, info.st_size))
        version = f"{info.st_ino}-{info.st_mtime_ns}-{info.st_size}"
        return FilePart(file.read(limit_bytes), info.st_size, version)


def copy(path: Path, target: BinaryIO, limit_bytes: int) -> tuple[int, bytes]:
    """Copy a regular file to `target` and return its size and its first bytes. Raises ToolError."""
    with _readable(path) as file:
        size, head = 0, b""
        while chunk := file.read(_CHUNK_BYTES):
            head = head or chunk[:16]
            size += len(chunk)
            if size > limit_bytes:
                raise ToolError(
                    f"{path} is over {limit_bytes // 2**20:,} MB, the limit for sending files."
                )
            target.write(chunk)
        if not size:
            raise ToolError(f"{path} is empty.")
        return size, head


@contextmanager
def _readable(path: Path, rights: ReadingRights | None = None) -> Iterator[BinaryIO]:
    with explain_errors(path), _open_folder(path.parent, rights) as folder:
        _regular(path.name, folder)
        with open(_open_plain_file(path.name, folder, os.O_RDONLY), "rb") as file:
            if rights is not None:
                rights.check_file(file.fileno())
            info = os.fstat(file.fileno())
            if info.st_nlink > 1 and not info.st_mode & stat.S_IROTH:
                raise ToolError(
                    f"{path} has several names (hard links) and is private; copy its content to a "
                    "new file to open it."
                )
            yield file


def _open_folder(path: Path, rights: ReadingRights | None) -> AbstractContextManager[int]:
    return open_folder_beneath(path) if rights is None else rights.open_folder(path)


def kind(path: Path, rights: ReadingRights | None = None) -> Literal["file", "folder"] | None:
    """Return the kind of file at `path`, or None if it does not exist.

    With `rights`, their user must be able to reach it. Special files count as "file"; opening them
    raises the error.
    """
    with explain_errors(path):
        try:
            with _open_folder(path.parent, rights) as folder:
                mode = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
    return "folder" if stat.S_ISDIR(mode) else "file"


def write_atomic(
    path: Path,
    data: bytes,
    mode: int | None = None,
    prepare: Callable[[int], None] | None = None,
) -> None:
    """Write `data` to a new file that replaces `path`, or change nothing.

    Creates missing parent folders. An existing file keeps its owner, and its mode unless `mode` is
    given; without a `mode`, a new file belongs to the owner of its folder if Kore runs as root.
    `prepare` receives the descriptor of the new, empty file before the rename. Raises ToolError.
    """
    quarantine_created(path)
    with explain_errors(path), open_folder_beneath(path.parent, create=True) as folder:
        old = _regular(path.name, folder)
        name = f".{secrets.token_hex(8)}.kore-new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
        is_ordinary = old is None and mode is None
        first = 0o666 if is_ordinary else 0o600
        with creating_as_owner(folder) if is_ordinary else nullcontext():
            fd = os.open(name, flags, first, dir_fd=folder)
        try:
            with open(fd, "wb") as file:
                if prepare is not None:
                    prepare(fd)
                if old:
                    _keep_owner(fd, old)
                if mode is not None:
                    os.fchmod(fd, mode & 0o777)
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # After the rename, no file has this name.
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        _sync_folder(folder)


def append(path: Path, data: bytes, prepare: Callable[[int], None] | None = None) -> None:
    """Append `data` to `path`, creating the file and its parent folders.

    `prepare` first receives the descriptor of the open file. Raises ToolError.
    """
    quarantine_created(path)
    with explain_errors(path), open_folder_beneath(path.parent, create=True) as folder:
        old = _regular(path.name, folder)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with creating_as_owner(folder) if old is None else nullcontext():
            descriptor = _open_plain_file(path.name, folder, flags)
        with open(descriptor, "ab") as file:
            if os.fstat(file.fileno()).st_nlink > 1:
                raise ToolError(
                    f"{path} has several names (hard links) that would all change; "
                    "write_file replaces it with a separate file."
                )
            if prepare is not None:
                prepare(file.fileno())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Convert operating system errors about a path to messages for the model."""
    try:
        yield
    except FileNotFoundError as exc:
        raise FileMissing(f"{path} does not exist.") from exc
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ToolError(f"{path} goes through something that is not a folder.") from exc
        text = exc.strerror or type(exc).__name__
        raise ToolError(f"{path} cannot be used: {text.lower()}.") from exc


def _open_plain_file(name: str, folder: int, flags: int) -> int:
    """Return a descriptor of the regular file `name`.

    Raises ToolError if another kind of file has replaced it.
    """
    fd = os.open(name, flags | _PLAIN, 0o666, dir_fd=folder)
    try:
        refuse_kernel_view(fd)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ToolError(f"{name!r} is not an ordinary file.")
    except BaseException:
        os.close(fd)
        raise
    return fd


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
    # Drop setuid and setgid: new content must not run with another user's rights.
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)


def _sync_folder(folder: int) -> None:
    # The rename survives a power failure only after the folder has been synced.
    with suppress(OSError):
        fd = os.open(".", LISTED, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class _FileLock:
    """Lock of one file, alive while a thread owns it or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = Lock()


# One table for all agents, because they share the disk.
_file_locks: WeakValueDictionary[Path, _FileLock] = WeakValueDictionary()

_table = Lock()

# An operation on one file takes milliseconds.
LOCK_TIMEOUT_S, _LOCK_POLL_INTERVAL_S = 3.0, 0.005


@contextmanager
def exclusive_file(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Lock a file against other threads and other Kore processes while it is read and written.

    Blocks, so call it in a thread. A thread may lock only one file at a time. After `timeout_s` a
    file that another process keeps locked is used all the same.
    """
    # Some file systems accept several spellings of the same file name.
    key = folded_path(path)
    with _table:
        latch = _file_locks.setdefault(key, _FileLock())
    with latch.lock:
        descriptor = _lock_for_processes(path, timeout_s)
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _lock_for_processes(path: Path, timeout_s: float) -> int | None:
    """Return a descriptor of the locked file; closing it releases the lock.

    Returns None if the file does not exist, cannot be locked, or stays locked until the timeout: a
    command may hold a lock forever.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            descriptor = os.open(path, os.O_RDONLY | _PLAIN)
        except OSError:
            return None
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                break
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner of the lock may have replaced the file.
            if os.path.samestat(info, path.lstat()):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                break
            time.sleep(_LOCK_POLL_INTERVAL_S)
        except OSError:
            break
        os.close(descriptor)
    os.close(descriptor)
    return None
