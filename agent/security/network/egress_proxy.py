"""Kore's own proxy to named hosts, the only way out of a sandbox."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from agent.security.network.proxy_connection import (
    EgressGrant,
    ProxyConnection,
    ProxySession,
    Record,
)

TOKEN_BYTES = 32
BACKLOG = 128
# They mean the command's own network, unless a person has granted the host's by its name.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class EgressProxy:
    """Proxy for one command with one listener.

    Use `channel` for a sandbox that hands over its own listener, or `listener`. `session` has the
    results. Nothing is left of the proxy when the block of `open` ends.
    """

    def __init__(self, grant: EgressGrant, record: Record) -> None:
        self.session = ProxySession(grant, record)
        self._token = b""
        self._password = ""
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self._listener = self._loop.create_future()

    @classmethod
    @asynccontextmanager
    async def open(cls, grant: EgressGrant, record: Record) -> AsyncIterator["EgressProxy"]:
        """Run a proxy until the block ends."""
        proxy = cls(grant, record)
        serving = asyncio.create_task(proxy._serve(), name="proxy")
        try:
            yield proxy
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            for each in proxy._sockets:
                proxy._loop.remove_reader(each)
                each.close()

    def channel(self) -> tuple[int, str, tuple[str, ...]]:
        """Open a Unix socket to inherit, over which the sandbox sends its listener.

        Returns the socket, the password for the listener, and the names of the command's own
        network, which programs reach without the proxy; the caller closes the socket. The socket
        has no name, and the listener is in another network namespace: only programs of the same
        conversation can connect, and of these only the command knows the password.
        """
        self._password = secrets.token_urlsafe(TOKEN_BYTES)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._sockets.append(ours)
        self._loop.add_reader(ours, self._receive, ours)
        own = tuple(name for name in LOOPBACK_NAMES if name not in self.session.grant.hosts)
        return theirs.detach(), self._password, own

    def listener(self) -> tuple[int, bytes]:
        """Open a port of 127.0.0.1; each connection must begin with the returned token."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._use(listener)
        return listener.getsockname()[1], self._token

    def _receive(self, channel: socket.socket) -> None:
        self._loop.remove_reader(channel)
        with suppress(OSError):
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            if descriptors:
                self._use(socket.socket(fileno=descriptors[0]))

    def _use(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._sockets.append(listener)
        if not self._listener.done():
            self._listener.set_result(listener)

    async def _serve(self) -> None:
        listener: socket.socket = await self._listener
        bounds = self.session.grant.limits
        free = asyncio.Semaphore(bounds.max_concurrent)
        async with asyncio.TaskGroup() as group:
            for _ in range(bounds.max_connections):
                await free.acquire()
                accepted, _ = await self._loop.sock_accept(listener)
                task = group.create_task(self._attend(accepted))
                task.add_done_callback(partial(self._release, accepted, free))
            # The kernel refuses new connections from now on.
            self._sockets.remove(listener)
            listener.close()

    def _release(self, accepted: socket.socket, free: asyncio.Semaphore, _: object) -> None:
        accepted.close()  # otherwise leaked by a task that was cancelled before it began
        free.release()

    async def _attend(self, accepted: socket.socket) -> None:
        limit = self.session.grant.limits.head_bytes
        reader, writer = await asyncio.open_connection(sock=accepted, limit=limit)
        # Drained data has really been sent, so that closing never waits for it.
        writer.transport.set_write_buffer_limits(0)
        try:
            await ProxyConnection(self.session, reader, writer).serve(self._token, self._password)
        finally:
            writer.transport.abort()
