"""Broker for supervised system calls under Landlock, which does not cover them.

The filter intercepts changes of modes and times, watches and connections, and asks here
(seccomp_unotify(2)). A path is read once and opened; checks and changes use that descriptor.
"""

import ctypes
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

_IS_VALID, _ADD_DESCRIPTOR = 0x40082102, 0x40182103
_ADDED = struct.Struct("<QIIII")
_REPLACE = 1  # SECCOMP_ADDFD_FLAG_SETFD
_GET_DESCRIPTOR = 438  # pidfd_getfd(2), the same number on all architectures
_PATH_BYTES = 4096


class TracedProcess:
    """The caller of notification `number` on a seccomp listener; `pid` is its thread."""

    def __init__(self, listener: int, number: int, pid: int) -> None:
        self.pid = pid
        self._listener = listener
        self._number = number

    def memory(self, at: int, size: int) -> bytes:
        """Return its memory, up to `size` bytes or the next unmapped page."""
        file = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(file, size, at)
        except (OSError, OverflowError) as exc:
            raise OSError(errno.EFAULT, "no such memory") from exc
        finally:
            os.close(file)

    def text(self, at: int) -> bytes:
        """Return the string at this address, without its terminator."""
        text, end, _ = self.memory(at, _PATH_BYTES).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG, "too long")
        return text

    def check(self) -> None:
        """Raise OSError if the process id may have been reused."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("<Q", self._number))

    def duplicate(self, descriptor: int) -> int:
        """Return a descriptor of the same open file."""
        process = os.pidfd_open(self._leader())
        try:
            self.check()
            return checked(_libc.syscall(_GET_DESCRIPTOR, process, descriptor & 0x7FFFFFFF, 0))
        finally:
            os.close(process)

    def replace(self, descriptor: int, own: int) -> None:
        """Replace a descriptor with the open file `own`, keeping its close-on-exec flag."""
        with open(f"/proc/{self.pid}/fdinfo/{descriptor}", "rb") as file:
            flags = next(int(line.split()[1], 8) for line in file if line.startswith(b"flags:"))
        added = _ADDED.pack(self._number, _REPLACE, own, descriptor, flags & os.O_CLOEXEC)
        fcntl.ioctl(self._listener, _ADD_DESCRIPTOR, added)

    def _leader(self) -> int:
        """Return the process that the thread belongs to."""
        with open(f"/proc/{self.pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Tgid:"):
                    return int(line.split()[1])
        raise OSError(errno.ESRCH, "gone")


def checked(result: int) -> int:
    """Return the result of a C function. Raises OSError if it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTICE = struct.Struct("<QIIiIQ6Q")
ANSWER = struct.Struct("<QqiI")
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2

_WATCH_NO_FOLLOW = 0x02000000  # IN_DONT_FOLLOW

_libc = ctypes.CDLL(None, use_errno=True)


class HandlesConnect(Protocol):
    """Connect a socket for its caller and answer with the result."""

    def connect(
        self, caller: TracedProcess, arguments: Sequence[int], answer: Callable[[int], object]
    ) -> None: ...


class CallBroker:
    """Broker that makes the supervised calls of a command on its behalf, one after another.

    `calls` are the names of these calls by number; `writable` and `readable` are real paths. The
    filter supervises connections only with a `connect_broker`.
    """

    def __init__(
        self,
        calls: Mapping[int, str],
        *,
        writable: Sequence[str],
        readable: Sequence[str],
        connect_broker: HandlesConnect | None = None,
    ) -> None:
        self._calls = calls
        self._writable = writable
        self._readable = readable
        self._connect_broker = connect_broker
        self._listener = -1

    def listen(self, listener: int) -> None:
        """Set the seccomp listener to take calls from."""
        self._listener = listener

    def answer(self) -> bool:
        """Answer the next call. Return False if no more calls can come."""
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(self._listener, RECEIVE, notice)
        except OSError as exc:
            # The calling process was killed.
            return exc.errno in (errno.ENOENT, errno.EINTR)
        number, pid, _, call_number, _, _, *arguments = NOTICE.unpack(notice)
        call, caller = self._calls[call_number], TracedProcess(self._listener, number, pid)
        if self._connect_broker is not None and call == "connect":
            self._connect_broker.connect(
                caller, arguments, lambda error: self._send(number, -error)
            )
            return True
        code = value = 0
        try:
            if call == "inotify_add_watch":
                value = self._watch(caller, arguments)
            else:
                self._change(call, caller, arguments)
        except OSError as exc:
            code = -(exc.errno or errno.EPERM)
        return self._send(number, code, value)

    def _send(self, number: int, code: int, value: int = 0) -> bool:
        try:
            fcntl.ioctl(self._listener, SEND, ANSWER.pack(number, value, code, 0))
        except OSError as exc:
            return exc.errno in (errno.ENOENT, errno.EINTR)
        return True

    def _watch(self, caller: TracedProcess, arguments: Sequence[int]) -> int:
        """Add a watch to the caller's inotify instance and return its number.

        Landlock does not cover watches, which reveal file names in any folder.
        """
        instance, path_at, mask = arguments[:3]
        path = caller.text(path_at)
        caller.check()
        pinned = _pin(caller.pid, _HERE, path, _NO_FOLLOW if mask & _WATCH_NO_FOLLOW else 0)
        try:
            _require_below(pinned, self._readable, errno.EACCES)
            own = caller.duplicate(instance)
            try:
                where = f"/proc/self/fd/{pinned}".encode()
                mask = mask & 0xFFFFFFFF & ~_WATCH_NO_FOLLOW
                return checked(_libc.inotify_add_watch(own, where, ctypes.c_uint32(mask)))
            finally:
                os.close(own)
        finally:
            os.close(pinned)

    def _change(self, call: str, caller: TracedProcess, arguments: Sequence[int]) -> None:
        if call == "chmod":
            arguments = (_HERE, *arguments)
        if call == "fchmod":
            arguments = (arguments[0], 0, arguments[1])
        folder, path_at, what = arguments[:3]
        flags = arguments[3] & 0xFFFFFFFF if call in ("fchmodat2", "utimensat") else 0
        if call == "fchmod" or (call == "utimensat" and path_at == 0):
            # The change applies to an open file, independent of its open mode.
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
            _require_below(pinned, self._writable, errno.EPERM)
            if stat.S_ISLNK(os.fstat(pinned).st_mode):
                raise OSError(errno.EOPNOTSUPP, "a link")
            change(f"/proc/self/fd/{pinned}")
        finally:
            os.close(pinned)


def _require_below(pinned: int, roots: Sequence[str], code: int) -> None:
    real = os.readlink(f"/proc/self/fd/{pinned}")
    if not any(real == root or real.startswith(f"{root}/") for root in roots):
        raise OSError(code, "outside")


def _pin(pid: int, folder: int, path: bytes, flags: int) -> int:
    """Return a descriptor of the object that the caller's path refers to."""
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
