"""Accepts connections of clients, up to a number, and gives each little time for TLS.

asyncio's own servers know no limit: connections that say nothing would use up the files that this
process may open.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Collection

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
# No file can be opened now: the connection stays in the queue of the system.
_PAUSE_S = 0.5
# What somebody else can bring about is logged this often at most.
_WARNING_S = 60.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class ConnectionAcceptor:
    """`make_protocol` answers a connection; `count_open` says how many are answered now."""

    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        count_open: Callable[[], int],
        limit: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._make_protocol = make_protocol
        self._count_open = count_open
        self._limit = limit
        self._tls = tls
        self._handshakes = 0
        self._warned_at = float("-inf")

    async def accept(self, listeners: Collection[socket.socket]) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                group.create_task(self._accept_from(listener, group))

    async def _accept_from(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as exc:
                # Others concern the one connection that was to be taken in.
                if exc.errno in _EXHAUSTED:
                    log.warning("no connection can be accepted: %s", exc.strerror)
                    await asyncio.sleep(_PAUSE_S)
                continue
            if self._handshakes + self._count_open() >= self._limit:
                self._refuse(connection)
                continue
            self._handshakes += 1
            group.create_task(self._open(connection))

    async def _open(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S if self._tls else None,
            )
        except (OSError, ssl.SSLError) as exc:
            log.debug("a connection was not opened: %s", type(exc).__name__)
            connection.close()
        finally:
            self._handshakes -= 1

    def _refuse(self, connection: socket.socket) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARNING_S:
            self._warned_at = now
            log.warning("refusing connections: %d are open (server.max_connections)", self._limit)
        with connection:
            if self._tls is None:
                try:
                    connection.send(_REFUSAL)
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    return  # gone already
