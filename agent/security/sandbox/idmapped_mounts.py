"""Mount namespaces in which folders of root, or of another owner, belong to an unprivileged user.

See mount_setattr(2) and Documentation/filesystems/idmappings.rst. On disk everything still belongs
to the owner: the process creates files as the owner, and may change the owner's files.
"""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath
from agent.security.sandbox.unprivileged_user import USER

_IDS = 0xFFFFFFFF
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same numbers on all architectures
_CLONE, _CLOSE_ON_EXEC, _RECURSIVE, _EMPTY_PATH = 0x1, 0x80000, 0x8000, 0x1000
_FROM_EMPTY_PATH = 0x4
_READ_ONLY, _NO_SET_UID, _NO_DEVICES, _MAPPED = 0x1, 0x2, 0x4, 0x100000
_NEW_MOUNTS = 0x20000
_PRIVATE = 0x4000 | 1 << 18

# Creates a user namespace and waits: its parent writes the ID map and opens the namespace.
_NAMESPACE = """\
import ctypes, os
made = ctypes.CDLL(None).unshare(0x10000000)
os.write(1, b"." if made == 0 else b"-")
os.read(0, 1)
"""

_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


class UnmappedFileSystem(OSError):
    """Error for a source on a file system without ID-mapped mounts; `filename` is its path."""


@frozen
class Owner:
    """User and group (default: root's) whose files on disk belong to `USER` inside."""

    user: int = 0
    group: int = 0

    @classmethod
    def of(cls, descriptor: int) -> "Owner":
        """Return the owner of a folder; root if it cannot be mapped."""
        info = os.fstat(descriptor)
        return cls(info.st_uid, info.st_gid) if max(info.st_uid, info.st_gid) < USER else cls()


@frozen
class Mount:
    """Source to mount at `place`, which is in the stage or below another mount.

    A source given as a descriptor cannot be replaced with a link.
    """

    source: Path | int
    place: Path
    read_only: bool = False
    owner: Owner = Owner()


@contextmanager
def namespace(stage: Path, mounts: Sequence[Mount]) -> Iterator[Path]:
    """Create a mount namespace and yield its file; `stage` is a new file system with these mounts.

    Files of a mount's owner belong to `USER` inside. A mount below another must come after it.
    Raises `OSError` if the kernel does not support this, and `UnmappedFileSystem` if the file
    system of a source does not.
    """
    with ExitStack() as stack:
        trees = []
        for mount in mounts:
            tree = _tree(mount)
            stack.callback(os.close, tree)
            trees.append(tree)
        fd = _mount_in_thread(stage, list(zip(mounts, trees, strict=True)))
        stack.callback(os.close, fd)
        yield Path(f"/proc/{os.getpid()}/fd/{fd}")


def _tree(mount: Mount) -> int:
    if isinstance(mount.source, int):
        folder, path, flags = mount.source, b"", _EMPTY_PATH
    else:
        folder, path, flags = -100, os.fsencode(mount.source), 0
    tree = _call(
        _libc.syscall, _OPEN_TREE, folder, path, _CLONE | _CLOSE_ON_EXEC | _RECURSIVE | flags
    )
    try:
        attributes = _Attributes(
            _MAPPED | _NO_SET_UID | _NO_DEVICES | (_READ_ONLY if mount.read_only else 0),
            user_namespace=_map_to_user(mount.owner),
        )
        size = ctypes.sizeof(attributes)
        flags = _EMPTY_PATH | _RECURSIVE
        _call(_libc.syscall, _MOUNT_SETATTR, tree, b"", flags, ctypes.byref(attributes), size)
    except BaseException as exc:
        os.close(tree)
        if isinstance(exc, OSError) and exc.errno == errno.EINVAL:
            source = mount.source
            name = os.readlink(f"/proc/self/fd/{source}") if isinstance(source, int) else source
            raise UnmappedFileSystem(exc.errno, exc.strerror, str(name)) from exc
        raise
    return tree


def _mount_in_thread(stage: Path, mounts: Sequence[tuple[Mount, int]]) -> int:
    """Create the mount namespace in a separate thread, so that no other thread ever enters it."""
    namespaces: list[int] = []
    errors: list[OSError] = []

    def work() -> None:
        try:
            _call(_libc.unshare, _NEW_MOUNTS)
            _call(_libc.mount, b"none", b"/", None, _PRIVATE, None)
            at = os.fsencode(stage)
            _call(_libc.mount, b"tmpfs", at, b"tmpfs", 0x6, b"mode=755,size=1m")
            for mount, tree in mounts:
                _attach(stage, mount, tree)
            namespaces.append(os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as exc:
            errors.append(exc)

    thread = threading.Thread(target=work, name="mount namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return namespaces[0]


def _attach(stage: Path, mount: Mount, tree: int) -> None:
    place = mount.place
    with open_folder_beneath(place.parent) as folder:
        if place.parent == stage:
            if stat.S_ISDIR(os.fstat(tree).st_mode):
                os.mkdir(place.name, 0o755, dir_fd=folder)
            else:
                os.close(os.open(place.name, os.O_CREAT | os.O_EXCL, 0o444, dir_fd=folder))
        # Without a flag, a link at the end is not followed.
        name = os.fsencode(place.name)
        _call(_libc.syscall, _MOVE_MOUNT, tree, b"", folder, name, _FROM_EMPTY_PATH)


@cache
def _map_to_user(owner: Owner) -> int:
    """Return the user namespace that maps the owner to `USER`; it stays open.

    Root takes the place of another owner; all other IDs are unchanged.
    """
    command = [sys.executable, "-I", "-S", "-c", _NAMESPACE]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    # Errors are discarded, because the process is killed together with Kore.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere) as process:
        assert process.stdin is not None, "it was opened as a pipe"
        assert process.stdout is not None, "it was opened as a pipe"
        if process.stdout.read(1) != b".":
            raise OSError(1, "no user namespace")
        for name, number in (("uid_map", owner.user), ("gid_map", owner.group)):
            lines = "".join(f"{line}\n" for line in _map_lines(number))
            Path(f"/proc/{process.pid}/{name}").write_text(lines, encoding="ascii")
        return os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)


def _map_lines(number: int) -> Iterator[str]:
    """Yield the lines of an ID map: first ID on disk, first ID inside, and their count."""
    if number:
        yield f"0 {number} 1"
    yield f"{number} {USER} 1"
    for first, end in ((1, number), (number + 1, USER), (USER + 1, _IDS)):
        if first < end:
            yield f"{first} {first} {end - first}"


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> int:
    """Call a C function and return its result. Raises `OSError` when it is negative."""
    result: int = function(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
