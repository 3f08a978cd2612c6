"""Acceptor of client connections with a limit on their number and on the TLS handshake time.

The servers of asyncio have no limit: idle connections would use up the files that this process may
open. Connections without a token make room for new ones.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Collection

from aiohttp import web

from gateway.server.connection_ranks import ConnectionRanks

log = logging.getLogger(__name__)

# No file can be opened at the moment; the connection waits in the operating system's queue.
_RETRY_INTERVAL_S = 0.5
# Minimum interval between warnings that other people can trigger.
_WARNING_INTERVAL_S = 60.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class ConnectionAcceptor:
    """Acceptor that passes connections to `server`; Unix socket connections never use TLS."""

    def __init__(
        self,
        server: web.Server,
        ranks: ConnectionRanks,
        limit: int,
        tls: ssl.SSLContext | None,
        handshake_timeout_s: float,
    ) -> None:
        self._server = server
        self._ranks = ranks
        self._limit = limit
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._warned_at = float("-inf")

    async def accept(self, listeners: Collection[socket.socket]) -> None:
        """Accept connections until cancelled."""
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                group.create_task(self._accept_from(listener, group))

    async def _accept_from(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as exc:
                # Other errors concern only the connection being accepted.
                if exc.errno in _EXHAUSTED:
                    log.warning("no connection can be accepted: %s", exc.strerror)
                    await asyncio.sleep(_RETRY_INTERVAL_S)
                # Let other tasks run even if accepting fails repeatedly.
                await asyncio.sleep(0)
                continue
            if self._count() >= self._limit and not self._make_room():
                self._refuse(connection)
                continue
            task = group.create_task(self._open(connection))
            self._handshakes[task] = None
            task.add_done_callback(self._handshakes.pop)
            # Let the task start before it can be cancelled to make room, so that it closes its
            # connection.
            await asyncio.sleep(0)

    def _count(self) -> int:
        return len(self._handshakes) + len(self._server.connections)

    def _make_room(self) -> bool:
        """Close the least important connection; return False if all belong to the owner."""
        connection = self._ranks.least(handler.transport for handler in self._server.connections)
        if connection is not None:
            connection.abort()
            return True
        handshake = next((task for task in self._handshakes if not task.cancelling()), None)
        if handshake is not None:
            handshake.cancel()
        return handshake is not None

    async def _open(self, connection: socket.socket) -> None:
        tls = self._tls if connection.family != socket.AF_UNIX else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server,
                connection,
                ssl=tls,
                ssl_handshake_timeout=self._handshake_timeout_s if tls else None,
            )
        except OSError as exc:
            log.debug("a connection was not opened: %s", type(exc).__name__)
            connection.close()

    def _refuse(self, connection: socket.socket) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _WARNING_INTERVAL_S:
            self._warned_at = now
            log.warning("refusing connections: %d are open (server.max_connections)", self._limit)
        with connection:
            if self._tls is None:
                try:
                    connection.send(_REFUSAL)
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    return  # already gone
