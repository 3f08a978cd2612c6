"""Open files and folders by a checked path, without following links or blocking.

A path is checked first and opened later; in between, a folder on it may be replaced by a link.
`openat2` (Linux 5.6) opens the whole path in one step and rejects links, `..` and the magic links
of /proc. Where it is missing or forbidden, each component is opened separately without following
links, with the same result. https://man7.org/linux/man-pages/man2/openat2.2.html
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

# The same number on every architecture except alpha.
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_RESOLVE = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_MAX_TRIES = 8

# On Linux, O_PATH opens folders for traversal even if they cannot be listed.
THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# File system types of kernel interfaces, wherever they are mounted: linux/magic.h.
_KERNEL_VIEWS = frozenset(
    {
        *(0x9FA0, 0x62656572, 0x1CD1, 0x64626720, 0x74726163),  # proc, sys, pts, debug, trace
        *(0x73636673, 0xF97CFF8C, 0xCAFE4A11, 0x62656570),  # security, selinux, bpf, config
        *(0x27E0EB, 0x63677270, 0x6E736673, 0x19800202),  # cgroup, cgroup2, namespaces, mqueue
        *(0xDE5E81E4, 0x6165676C, 0x42494E4D, 0x65735543),  # efivar, pstore, binfmt_misc, fusectl
    }
)

_Open = Callable[[int, str, int], int]
_KindOf = Callable[[int], int]


@contextmanager
def open_folder_beneath(path: Path, *, create: bool = False, flags: int = THROUGH) -> Iterator[int]:
    """Yield a descriptor of the folder `path`, an absolute path without links and `..`.

    With `create`, missing folders are created. Raises OSError: ELOOP or ENOTDIR for a link in the
    path, ENOENT for a missing folder, EPERM in a kernel file system such as /proc.
    """
    fd = _open_folder(path, create, flags)
    try:
        refuse_kernel_view(fd)
        yield fd
    finally:
        os.close(fd)


def open_subfolder(name: str, folder: int, *, create: bool = False, flags: int = THROUGH) -> int:
    """Return a descriptor of the folder `name`, one component, in the open `folder`.

    Raises OSError.
    """
    if create:
        with suppress(FileExistsError), creating_as_owner(folder):
            os.mkdir(name, dir_fd=folder)
    fd = os.open(name, flags, dir_fd=folder)
    try:
        refuse_kernel_view(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


@contextmanager
def creating_as_owner(folder: int) -> Iterator[None]:
    """Create files in the open folder as its owner, if Kore runs as root.

    Only this thread has the owner's rights to files in the block, and no others. Changing the owner
    of a new file would be a race with the owner, who can replace it.
    """
    owner = os.fstat(folder)
    if sys.platform != "linux" or os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(owner.st_gid)
    libc.setfsuid(owner.st_uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(os.getegid())


def refuse_kernel_view(fd: int) -> None:
    """Raise PermissionError for a descriptor in a kernel file system, wherever it is mounted."""
    kind_of = _kind_reader()
    if kind_of is not None and kind_of(fd) in _KERNEL_VIEWS:
        raise PermissionError(errno.EPERM, "it is a view of the kernel, not an ordinary file")


def has_openat2() -> bool:
    """Return whether the kernel lets us use `openat2`; old container hosts forbid it."""
    return _opener() is not None


def _open_folder(path: Path, create: bool, flags: int) -> int:
    relative = path.parts[1:]
    if not path.is_absolute() or ".." in relative:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    root = os.open(path.anchor, THROUGH)
    try:
        opener = _opener()
        if opener is not None and relative:
            try:
                return opener(root, "/".join(relative), flags)
            except FileNotFoundError:
                if not create:
                    raise
        return _walk(root, relative, create, flags)
    finally:
        os.close(root)


def _walk(root: int, parts: tuple[str, ...], create: bool, flags: int) -> int:
    fd = os.open(".", THROUGH if parts else flags, dir_fd=root)
    for number, part in enumerate(parts, 1):
        try:
            how = flags if number == len(parts) else THROUGH
            inner = open_subfolder(part, fd, create=create, flags=how)
        finally:
            os.close(fd)
        fd = inner
    return fd


@cache
def _opener() -> _Open | None:
    """Return a function that calls `openat2`, or None if a test call on the root folder fails."""
    if sys.platform != "linux":
        return None

    class How(ctypes.Structure):
        _fields_ = (
            ("flags", ctypes.c_uint64),
            ("mode", ctypes.c_uint64),
            ("resolve", ctypes.c_uint64),
        )

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long

    def open_beneath(folder: int, path: str, flags: int) -> int:
        how = How(flags, 0, _RESOLVE)
        name = os.fsencode(path)
        for _ in range(_MAX_TRIES):
            fd: int = syscall(
                ctypes.c_long(_OPENAT2),
                ctypes.c_long(folder),
                ctypes.c_char_p(name),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            if code not in (errno.EINTR, errno.EAGAIN):
                break
        raise OSError(code, os.strerror(code), path)

    root = os.open("/", THROUGH)
    try:
        os.close(open_beneath(root, ".", THROUGH))
    except OSError:
        return None
    finally:
        os.close(root)
    return open_beneath


@cache
def _kind_reader() -> _KindOf | None:
    """Return a function that returns the magic number of a descriptor's file system."""
    if sys.platform != "linux":
        return None
    fstatfs = ctypes.CDLL(None, use_errno=True).fstatfs

    def kind_of(fd: int) -> int:
        # struct statfs begins with the magic number and has at most 120 bytes.
        room = (ctypes.c_ulong * 32)()
        if fstatfs(ctypes.c_int(fd), ctypes.byref(room)):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return int(room[0]) & 0xFFFF_FFFF

    return kind_of


# A name such as `AGENTS.md` or `.git/HEAD` may be a pipe, a device or a kernel file: opening a pipe
# waits for a writer, and a device never ends. Kore reads only regular files on a disk.

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
