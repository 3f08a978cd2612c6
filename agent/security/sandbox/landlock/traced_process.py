"""Access to memory and descriptors of a process that waits in a supervised system call."""

import ctypes
import errno
import fcntl
import os
import struct

_IS_VALID, _ADD_DESCRIPTOR = 0x40082102, 0x40182103
_ADDED = struct.Struct("<QIIII")
_REPLACE = 1  # SECCOMP_ADDFD_FLAG_SETFD
_GET_DESCRIPTOR = 438  # pidfd_getfd(2), the same number on all architectures
_PATH_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class TracedProcess:
    """The caller of notification `number` on a seccomp listener; `pid` is its thread."""

    def __init__(self, listener: int, number: int, pid: int) -> None:
        self.pid = pid
        self._listener = listener
        self._number = number

    def memory(self, at: int, size: int) -> bytes:
        """Return its memory; less than `size` bytes before an unmapped page."""
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
        """Raise OSError when the process id may have been reused."""
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
        """Replace a descriptor by the open file `own`; its close-on-exec flag stays."""
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
    """Return the result of a C function. Raises OSError for a negative one."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
