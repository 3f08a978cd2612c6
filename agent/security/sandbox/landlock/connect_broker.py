"""Broker for connections under Landlock, which filters ports but not addresses.

The filter intercepts `connect` and asks here. The broker connects its own socket to Kore's proxy,
sends the token, and replaces the command's socket. The command never gets a socket with the token
in its queues: the kernel would return it, as it does with SO_TIMESTAMPING. For a local service the
broker also asks the proxy for a tunnel to it.
"""

import _socket
import _thread
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_ADDRESS = struct.Struct("<H2s4s")
_TIMEOUT_S = 2.0
# Until the proxy has recorded the connection and connected to a service.
_TUNNEL_TIMEOUT_S = 20.0
# The whole answer of the proxy to a request for a tunnel.
PASSED_ON = b"HTTP/1.1 200 Connection established\r\n\r\n"
_POLL_INTERVAL_S = 0.001
_UNSENT = 0x5411  # SIOCOUTQ of tcp(7): bytes not acknowledged by the peer
_SOL_TCP = 6
# Socket options that programs set before connecting: SO_KEEPALIVE, SO_LINGER, SO_RCVTIMEO,
# SO_SNDTIMEO, TCP_NODELAY.
_OPTIONS = ((1, 9), (1, 13), (1, 20), (1, 21), (_SOL_TCP, 1))
_OPTION_BYTES = 16


class Caller(Protocol):
    """Process that waits for its connection."""

    def memory(self, at: int, size: int) -> bytes: ...
    def duplicate(self, descriptor: int) -> int: ...
    def replace(self, descriptor: int, own: int) -> None: ...


class ConnectBroker:
    """Broker that connects only to the proxy at 127.0.0.1:`port`, and through it to `services`."""

    def __init__(self, port: int, token: bytes, services: Sequence[tuple[str, int]] = ()) -> None:
        self._port = port
        self._token = token
        requests = {
            _pack(*service): b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (service[0].encode(), service[1])
            for service in services
        }
        self._request_by_address = {**requests, _pack("127.0.0.1", port): b""}

    def connect(
        self, caller: Caller, arguments: Sequence[int], answer: Callable[[int], object]
    ) -> None:
        """Connect in a thread, so that other calls do not wait; `answer` takes an errno or 0."""

        def work() -> None:
            try:
                self._connect(caller, arguments)
            except OSError as exc:
                answer(exc.errno or errno.ENETUNREACH)
            else:
                answer(0)

        _thread.start_new_thread(work, ())

    def _connect(self, caller: Caller, arguments: Sequence[int]) -> None:
        descriptor, address_at = arguments[0] & 0x7FFFFFFF, arguments[1]
        request = self._request_by_address.get(caller.memory(address_at, _ADDRESS.size))
        if request is None:
            raise OSError(errno.ENETUNREACH, "elsewhere")
        with _Socket(fileno=caller.duplicate(descriptor)) as theirs:
            _require_unconnected(theirs)
            with _Socket(_socket.AF_INET, _socket.SOCK_STREAM) as own:
                self._open(own, request)
                for level, name in _OPTIONS:
                    own.setsockopt(level, name, theirs.getsockopt(level, name, _OPTION_BYTES))
                own.setblocking(not fcntl.fcntl(theirs.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK)
                caller.replace(descriptor, own.fileno())

    def _open(self, own: "_Socket", request: bytes) -> None:
        """Connect, and wait until the token has left the queues of the socket."""
        own.settimeout(_TIMEOUT_S)
        own.setsockopt(_SOL_TCP, _socket.TCP_NODELAY, 1)
        try:
            own.connect(("127.0.0.1", self._port))
            own.sendall(self._token + request)
            if request:
                own.settimeout(_TUNNEL_TIMEOUT_S)
                _require_tunnel(own)
        except TimeoutError as exc:
            raise OSError(errno.ETIMEDOUT, "the proxy does not answer") from exc
        deadline = time.monotonic() + _TIMEOUT_S
        while any(fcntl.ioctl(own.fileno(), _UNSENT, bytes(4))):
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, "the proxy does not answer")
            time.sleep(_POLL_INTERVAL_S)


def _require_tunnel(own: _socket.socket) -> None:
    """Read the answer of the proxy, but none of the data that follows."""
    answer = b""
    while len(answer) < len(PASSED_ON) and PASSED_ON.startswith(answer):
        data = own.recv(len(PASSED_ON) - len(answer))
        answer += data or b"\0"
    if answer != PASSED_ON:
        raise OSError(errno.ECONNREFUSED, "the proxy refuses")


def _pack(host: str, port: int) -> bytes:
    return _ADDRESS.pack(_socket.AF_INET, port.to_bytes(2, "big"), _socket.inet_aton(host))


class _Socket(_socket.socket):
    def __enter__(self) -> "_Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_unconnected(theirs: _Socket) -> None:
    if theirs.family != _socket.AF_INET or theirs.type != _socket.SOCK_STREAM:
        raise OSError(errno.EAFNOSUPPORT, "not a TCP socket")
    try:
        theirs.getpeername()
    except OSError as exc:
        if exc.errno != errno.ENOTCONN:
            raise
    else:
        raise OSError(errno.EISCONN, "connected before")
