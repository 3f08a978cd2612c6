"""Connections of a command under Landlock, which knows ports and no addresses: made for it.

The filter stops `connect` and asks here. Whatever address a program names, its socket is led to
Kore's proxy and begins with the token, which the program does not get to know.
"""

import _socket
import _thread
import ctypes
import errno
import os
import select
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

_GET_DESCRIPTOR = 438  # pidfd_getfd(2), the same number everywhere
_ADDRESS = struct.Struct("<H2s4s")
_PATIENCE_MS = 2000

_libc = ctypes.CDLL(None, use_errno=True)


class Caller(Protocol):
    """The process that waits for an answer."""

    pid: int

    def memory(self, at: int, size: int) -> bytes: ...
    def check(self) -> None: ...


class ConnectBroker:
    """Leads to `port` of 127.0.0.1, and nowhere else."""

    def __init__(self, port: int, token: bytes) -> None:
        self._port = port
        self._token = token
        packed = port.to_bytes(2, "big")
        self._address = _ADDRESS.pack(_socket.AF_INET, packed, bytes((127, 0, 0, 1)))

    def connect(
        self, caller: Caller, arguments: Sequence[int], answer: Callable[[int], object]
    ) -> None:
        """Connect in a thread, so that other calls do not wait; `answer` takes 0 or an error's
        number."""

        def work() -> None:
            try:
                self._connect(caller, arguments)
            except OSError as exc:
                answer(exc.errno or errno.ENETUNREACH)
            else:
                answer(0)

        _thread.start_new_thread(work, ())

    def _connect(self, caller: Caller, arguments: Sequence[int]) -> None:
        descriptor, address_at, _ = arguments[:3]
        if caller.memory(address_at, _ADDRESS.size) != self._address:
            raise OSError(errno.ENETUNREACH, "elsewhere")
        with _duplicate_socket(caller, descriptor) as theirs:
            try:
                theirs.connect(("127.0.0.1", self._port))
            except BlockingIOError:
                _wait(theirs)
            theirs.send(self._token)


def _duplicate_socket(caller: Caller, descriptor: int) -> "_Socket":
    """The very socket of another process, not a copy."""
    process = os.pidfd_open(_leader(caller.pid))
    try:
        caller.check()
        fd = _libc.syscall(_GET_DESCRIPTOR, process, descriptor & 0x7FFFFFFF, 0)
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        # Of this kind whatever it is: then it cannot be connected.
        return _Socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, fd)
    finally:
        os.close(process)


class _Socket(_socket.socket):
    def __enter__(self) -> "_Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait(connecting: _Socket) -> None:
    poll = select.poll()
    poll.register(connecting.fileno(), select.POLLOUT)
    if not poll.poll(_PATIENCE_MS):
        raise OSError(errno.ETIMEDOUT, "nobody answers")
    if code := connecting.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR):
        raise OSError(code, os.strerror(code))


def _leader(thread: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    raise OSError(errno.ESRCH, "gone")
