"""Changes of a file's mode and times for a command under Landlock, which does not govern them.

The filter stops `chmod` and its like and asks here (seccomp_unotify(2)). The path is read once
and pinned, and only what lies in a writable folder is changed: by this process, for the command.
"""

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_PATH_BYTES = 4096
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2

_CALLS = {
    "x86_64": {42: "connect", 90: "chmod", 268: "fchmodat", 452: "fchmodat2", 280: "utimensat"},
    "aarch64": {203: "connect", 53: "fchmodat", 452: "fchmodat2", 88: "utimensat"},
}


class HandlesConnect(Protocol):
    """Connects a socket for its caller, and answers with the result."""

    def connect(
        self, caller: "TracedProcess", arguments: Sequence[int], answer: Callable[[int], object]
    ) -> None: ...


class MetadataBroker:
    """Answers the calls of a command, one after the other; `writable` are real folders.

    The filter asks about connections only where there is an `connect_broker`.
    """

    def __init__(
        self, writable: Sequence[str], connect_broker: HandlesConnect | None = None
    ) -> None:
        self._writable = writable
        self._connect_broker = connect_broker
        self._listener = -1
        self._calls = _CALLS[os.uname().machine]

    def listen(self, listener: int) -> None:
        self._listener = listener

    def answer(self) -> bool:
        """Answer the next call; False when there can be no more."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, notice)
        except OSError as exc:
            # The calling process has been killed.
            return exc.errno in (errno.ENOENT, errno.EINTR)
        number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        code = 0
        if self._connect_broker is not None and self._calls[call] == "connect":
            caller = TracedProcess(self._listener, number, pid)
            self._connect_broker.connect(
                caller, arguments, lambda error: self._send(number, -error)
            )
            return True
        try:
            self._change(self._calls[call], TracedProcess(self._listener, number, pid), arguments)
        except OSError as exc:
            code = -(exc.errno or errno.EPERM)
        return self._send(number, code)

    def _send(self, number: int, code: int) -> bool:
        try:
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, code, 0))
        except OSError as exc:
            return exc.errno in (errno.ENOENT, errno.EINTR)
        return True

    def _change(self, call: str, caller: "TracedProcess", arguments: Sequence[int]) -> None:
        if call == "chmod":
            arguments = (_HERE, *arguments)
        folder, path_at, what = arguments[:3]
        flags = arguments[3] & 0xFFFFFFFF if call in ("fchmodat2", "utimensat") else 0
        if call == "utimensat" and path_at == 0:
            # Of an open file, however it was opened.
            path, flags = b"", _EMPTY_PATH
        else:
            path = caller.text(path_at)
        if call == "utimensat":
            change = _times(caller.memory(what, 32) if what else None)
        else:
            change = _mode(what)
        caller.check()
        pinned = _pin(caller.pid, folder, path, flags)
        try:
            real = os.readlink(f"/proc/self/fd/{pinned}")
            if not any(real == root or real.startswith(f"{root}/") for root in self._writable):
                raise PermissionError(errno.EPERM, "outside")
            if stat.S_ISLNK(os.fstat(pinned).st_mode):
                raise OSError(errno.EOPNOTSUPP, "a link")
            change(f"/proc/self/fd/{pinned}")
        finally:
            os.close(pinned)


class TracedProcess:
    """The process that waits for an answer."""

    def __init__(self, listener: int, number: int, pid: int) -> None:
        self.pid = pid
        self._listener = listener
        self._number = number

    def memory(self, at: int, size: int) -> bytes:
        """Its memory; less of it where the next page is not there."""
        file = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(file, size, at)
        except (OSError, OverflowError) as exc:
            raise OSError(errno.EFAULT, "no such memory") from exc
        finally:
            os.close(file)

    def text(self, at: int) -> bytes:
        text, end, _ = self.memory(at, _PATH_BYTES).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "too long")
        return text

    def check(self) -> None:
        """Raises OSError when the process id may have been reused."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("<Q", self._number))


def _pin(pid: int, folder: int, path: bytes, flags: int) -> int:
    """A descriptor of what the caller means by a path."""
    number = struct.unpack("<i", struct.pack("<I", folder & 0xFFFFFFFF))[0]
    start = f"/proc/{pid}/cwd" if number == _HERE else f"/proc/{pid}/fd/{number}"
    if not path:
        if not flags & _EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "empty")
        return os.open(start, os.O_PATH)
    follow = os.O_NOFOLLOW if flags & _NO_FOLLOW else 0
    if path.startswith(b"/proc/"):
        path = path.replace(b"/proc/self/", b"/proc/%d/" % pid, 1)
    if path.startswith(b"/"):
        return os.open(path, os.O_PATH | follow)
    base = os.open(start, os.O_PATH | os.O_DIRECTORY)
    try:
        return os.open(path, os.O_PATH | follow, dir_fd=base)
    finally:
        os.close(base)


def _mode(mode: int) -> Callable[[str], None]:
    return lambda path: os.chmod(path, mode & 0o1777)


def _times(raw_times: bytes | None) -> Callable[[str], None]:
    def change(path: str) -> None:
        if raw_times is None:
            os.utime(path)
            return
        if len(raw_times) < 32:
            raise OSError(errno.EFAULT, "no times")
        current = os.stat(path)
        access_s, access_ns, change_s, change_ns = struct.unpack("<qqqq", raw_times)
        os.utime(
            path,
            ns=(
                _moment(access_s, access_ns, current.st_atime_ns),
                _moment(change_s, change_ns, current.st_mtime_ns),
            ),
        )

    return change


def _moment(seconds: int, nanoseconds: int, unchanged: int) -> int:
    if nanoseconds == _OMIT:
        return unchanged
    return time.time_ns() if nanoseconds == _NOW else seconds * 1_000_000_000 + nanoseconds
