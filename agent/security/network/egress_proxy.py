"""The only way out of a sandbox: a proxy of Kore's own that leads to some named hosts."""

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
# They mean the command's own network, unless a person has granted the one out here by its name.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class EgressProxy:
    """Serves one command at one listener: `channel` for a sandbox that hands its own over, or
    `listener`. `session` tells what came of it.

    Nothing is left of it when the block of `open` ends.
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
        """A proxy that runs until the block ends."""
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
        """A Unix socket to inherit, over which a listener comes, the password for it, and the names
        of the command's own network, which programs reach without it; the caller closes the socket.

        It has no name, and the listener is of another network namespace: only programs of the same
        conversation get there, and of those only the command knows the password.
        """
        self._password = secrets.token_urlsafe(TOKEN_BYTES)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._sockets.append(ours)
        self._loop.add_reader(ours, self._receive, ours)
        own = tuple(name for name in LOOPBACK_NAMES if name not in self.session.grant.hosts)
        return theirs.detach(), self._password, own

    def listener(self) -> tuple[int, bytes]:
        """A port of 127.0.0.1, and the token with which each connection to it has to begin."""
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
        accepted.close()  # of a task that was cancelled before it began, nothing else would
        free.release()

    async def _attend(self, accepted: socket.socket) -> None:
        limit = self.session.grant.limits.head_bytes
        reader, writer = await asyncio.open_connection(sock=accepted, limit=limit)
        # Whatever was drained has really left: nothing is waited for at the end.
        writer.transport.set_write_buffer_limits(0)
        try:
            await ProxyConnection(self.session, reader, writer).serve(self._token, self._password)
        finally:
            writer.transport.abort()
