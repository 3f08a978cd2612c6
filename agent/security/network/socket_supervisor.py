"""Supervisor of the sockets of a command that may reach Unix sockets or targets.

A filter intercepts `connect` and `bind` (seccomp_unotify(2)). Kore makes the call itself, on a
duplicate of the command's socket, so a command gains nothing by replacing the socket or the address
after the check. A Unix socket may only connect to a granted service, and is never bound. Other
sockets belong to the command's own network; a connection to a target goes to Kore's listener there.
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agent.records import frozen
from agent.security.local_services import LocalService, ReplacedSocketError
from agent.security.network.proxy_connection import ProxyRefusal, ProxyRequest, ProxySession
from agent.security.network.target_listener import TargetListener
from agent.security.network.targets import address_of
from agent.security.sandbox.landlock.call_broker import (
    ANSWER,
    NOTICE,
    RECEIVE,
    SEND,
    TracedProcess,
    checked,
)
from agent.security.sandbox.seccomp.bpf import SUPERVISED_SOCKETS, call_numbers

_MAX_ADDRESS_BYTES = 128
_MAX_THREADS = 16
# Limit on TCP calls that wait for the own network of a command; each occupies a descriptor of Kore.
MAX_WAITING_CALLS = 32
_CONNECT_TIMEOUT_S = 30
# Kore accepts connections to targets at once.
_ACCEPT_TIMEOUT_S = 10.0
_FAMILY = struct.Struct("<H")
# Offsets in struct sockaddr_in, sockaddr_in6 and sockaddr_nl.
_PORT, _NETLINK_GROUPS = slice(2, 4), slice(8, 12)
_HOST_4, _HOST_6 = slice(4, 8), slice(8, 24)
# The kernel accepts an IPv6 address without its scope.
_SIZE_4, _SIZE_6 = 16, 24
# Type without SOCK_NONBLOCK and SOCK_CLOEXEC.
_TYPE_MASK = 0xF
_FIRST_FREE_PORT = 1024
_TIMEOUT = struct.Struct("ll")  # struct timeval

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)


@frozen
class _SocketCall:
    """Supervised call: a duplicate of the caller's socket, and the address."""

    name: str
    socket: socket.socket
    address: bytes


class SocketSupervisor:
    """Supervisor that makes the calls arriving at `listener`, which it closes at the end."""

    def __init__(
        self, listener: int, session: ProxySession, targets: TargetListener | None = None
    ) -> None:
        self._listener = listener
        self._session = session
        self._targets = targets
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "supervised socket")
        self._names = call_numbers(SUPERVISED_SOCKETS)
        self._open: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_calls = 0
        self._loop.add_reader(listener, self._receive)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        for task in self._tasks:
            task.cancel()
        # A call may wait for a peer that does not answer.
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(wait=False, cancel_futures=True)
        os.close(self._listener)

    def _receive(self) -> None:
        notice = bytearray(NOTICE.size)
        try:
            fcntl.ioctl(self._listener, RECEIVE, notice)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.EINTR):
                self._loop.remove_reader(self._listener)
            return
        task = self._loop.create_task(self._serve(notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, notice: bytearray) -> None:
        number, pid, _, call, _, _, *arguments = NOTICE.unpack(notice)
        error = 0
        try:
            work = self._in_thread(self._read, number, pid, self._names[call], arguments)
            await self._make(await work)
        except OSError as exc:
            error = exc.errno or errno.EPERM
        with suppress(OSError):
            fcntl.ioctl(self._listener, SEND, ANSWER.pack(number, 0, -error, 0))

    def _read(self, number: int, pid: int, name: str, arguments: list[int]) -> _SocketCall:
        caller = TracedProcess(self._listener, number, pid)
        descriptor, address_at, size = arguments[:3]
        address = caller.memory(address_at, min(size & 0xFFFFFFFF, _MAX_ADDRESS_BYTES))
        return _SocketCall(name, socket.socket(fileno=caller.duplicate(descriptor)), address)

    async def _make(self, call: _SocketCall) -> None:
        self._open.add(call.socket)
        try:
            if call.socket.family != socket.AF_UNIX:
                _refuse_privileged(call)
                await self._make_in_network(call)
            elif call.name == "bind":
                raise PermissionError(errno.EPERM, "Unix sockets are not bound")
            else:
                await self._reach(call.socket, await self._in_thread(_path_of, call.address))
        finally:
            self._open.discard(call.socket)
            call.socket.close()

    async def _make_in_network(self, call: _SocketCall) -> None:
        """Make the call in the command's own network. Raises `OSError`."""
        if call.name == "bind":
            await self._in_thread(_invoke, _libc.bind, call.socket, call.address)
        elif not _is_tcp(call.socket):
            await self._in_thread(_invoke, _libc.connect, call.socket, call.address)
        elif self._targets is None or (destination := self._destination_of(call)) is None:
            await self._connect_tcp(call.socket, call.address)
        else:
            await self._connect_to_target(call.socket, self._targets, destination)

    def _destination_of(self, call: _SocketCall) -> ProxyRequest | None:
        """Return the target to which a TCP socket is to be connected, or None."""
        place = _unpack_address(call.socket.family, call.address)
        if self._targets is None or place is None:
            return None
        return self._targets.destination_at(*place)

    async def _connect_to_target(
        self, own: socket.socket, targets: TargetListener, destination: ProxyRequest
    ) -> None:
        """Connect a socket to the listener, and wait until the listener has accepted it.

        Nothing is awaited between the call and the announcement, which holds only as long as this
        duplicate occupies the port. Raises `OSError`.
        """
        address = _pack_address(own.family, *targets.address)
        if _has_peer(own):
            # A program may ask for the result of its connection in this way.
            _start_connect(own, address)
            return
        is_blocking = os.get_blocking(own.fileno())
        error = _begin_connect(own, address)
        with targets.expecting(own.getsockname()[1], destination) as is_accepted:
            if error is not None and not _has_peer(own):
                await self._wait_until_writable(own)
            if _has_peer(own):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ACCEPT_TIMEOUT_S):
                        await is_accepted.wait()
        if error is not None:
            if not is_blocking:
                raise error
            _start_connect(own, address)

    async def _connect_tcp(self, own: socket.socket, address: bytes) -> None:
        """Connect a socket of the own network; a blocking one waits here, without a thread.

        Raises `OSError`, also if too many wait.
        """
        is_blocking = os.get_blocking(own.fileno())
        error = _begin_connect(own, address)
        if error is None:
            return
        if not is_blocking:
            raise error
        if self._waiting_calls >= MAX_WAITING_CALLS:
            raise BlockingIOError(errno.EAGAIN, "too many connections are waiting")
        seconds, microseconds = _TIMEOUT.unpack(
            own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.size)
        )
        self._waiting_calls += 1
        try:
            async with asyncio.timeout(seconds + microseconds / 1_000_000 or None):
                await self._wait_until_writable(own)
        except TimeoutError:
            raise error from None
        finally:
            self._waiting_calls -= 1
        _start_connect(own, address)

    async def _wait_until_writable(self, own: socket.socket) -> None:
        """Wait until a connection is made or has failed."""
        is_writable = asyncio.Event()
        self._loop.add_writer(own, is_writable.set)
        try:
            await is_writable.wait()
        finally:
            self._loop.remove_writer(own)

    async def _reach(self, own: socket.socket, path: Path) -> None:
        """Connect a socket to the service at this real path, and record it. Raises `OSError`."""
        session = self._session
        service = session.grant.socket_at(path)
        if service is None:
            raise PermissionError(errno.EPERM, "not granted")
        try:
            await session.check_service(service)
            try:
                await self._in_thread(_connect, own, service)
            except ReplacedSocketError as exc:
                raise ProxyRefusal(403, "its socket was replaced after it was allowed") from exc
            # The program gets the result only after this.
            await session.record_service(service)
        except ProxyRefusal as exc:
            await session.record_refusal(str(service), exc)
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
            raise PermissionError(errno.EPERM, str(exc)) from exc

    async def _in_thread(self, work: Callable[..., T], *values: Any) -> T:
        return await self._loop.run_in_executor(self._threads, work, *values)


def _is_tcp(own: socket.socket) -> bool:
    is_internet = own.family in (socket.AF_INET, socket.AF_INET6)
    return is_internet and own.type & _TYPE_MASK == socket.SOCK_STREAM


def _has_peer(own: socket.socket) -> bool:
    try:
        own.getpeername()
    except OSError:
        return False
    return True


def _begin_connect(own: socket.socket, address: bytes) -> BlockingIOError | None:
    """Begin a connection; return the error that says that it is in progress, if it is.

    Raises `OSError`.
    """
    try:
        _start_connect(own, address)
        return None
    except BlockingIOError as exc:
        if exc.errno != errno.EINPROGRESS:
            raise
        error = exc
    if os.get_blocking(own.fileno()) and _has_peer(own):
        # The second call returns the result of the first.
        _start_connect(own, address)
        return None
    return error


def _start_connect(own: socket.socket, address: bytes) -> None:
    """Call `connect` without waiting. Raises `OSError`.

    The descriptor shares its flags with the caller's, whose thread waits for the supervisor.
    """
    is_blocking = os.get_blocking(own.fileno())
    os.set_blocking(own.fileno(), False)
    try:
        _invoke(_libc.connect, own, address)
    finally:
        os.set_blocking(own.fileno(), is_blocking)


def _unpack_address(family: int, data: bytes) -> tuple[str, int] | None:
    """Return the host, an IPv4 address also for its IPv6 form, and the port of an address."""
    is_ipv6 = family == socket.AF_INET6
    host, size = (_HOST_6, _SIZE_6) if is_ipv6 else (_HOST_4, _SIZE_4)
    if len(data) < size or _FAMILY.unpack_from(data)[0] != family:
        return None
    address = address_of(socket.inet_ntop(family, data[host]))
    return str(address), int.from_bytes(data[_PORT], "big")


def _pack_address(family: int, host: str, port: int) -> bytes:
    """Return an address for the socket, the IPv6 form of an IPv4 address if necessary."""
    start, number = _FAMILY.pack(family), port.to_bytes(2, "big")
    if family == socket.AF_INET:
        return start + number + socket.inet_aton(host) + bytes(8)
    return start + number + bytes(4) + socket.inet_pton(family, f"::ffff:{host}") + bytes(4)


def _refuse_privileged(call: _SocketCall) -> None:
    """Raise `PermissionError` for a call that needs a capability, which Kore may have as root."""
    if call.socket.family == socket.AF_NETLINK:
        groups = call.address[_NETLINK_GROUPS]
        if any(groups):
            raise PermissionError(errno.EPERM, "netlink groups are not joined")
    elif call.name == "bind" and 0 < int.from_bytes(call.address[_PORT], "big") < _FIRST_FREE_PORT:
        raise PermissionError(errno.EACCES, "the port is privileged")


def _path_of(address: bytes) -> Path:
    """Return the real path that a Unix address names. Raises `OSError`."""
    text = address[_FAMILY.size :].split(b"\0")[0]
    if not text.startswith(b"/"):
        raise PermissionError(errno.EPERM, "not a full path")
    return Path(os.path.realpath(os.fsdecode(text)))


def _connect(own: socket.socket, service: LocalService) -> None:
    """Connect to a service, waiting only a limited time if it is busy."""
    timeout = own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.size)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.pack(_CONNECT_TIMEOUT_S, 0))
    try:
        with service.open_socket() as descriptor:
            path = f"/proc/self/fd/{descriptor}".encode()
            _invoke(_libc.connect, own, _FAMILY.pack(socket.AF_UNIX) + path + b"\0")
    finally:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def _invoke(function: Callable[..., int], own: socket.socket, address: bytes) -> None:
    checked(function(own.fileno(), address, len(address)))
