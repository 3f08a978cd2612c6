"""Kore's proxy to named hosts and local services, the only way out of a sandbox."""

import asyncio
import errno
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from agent.security.local_services import LocalService
from agent.security.network.proxy_connection import (
    EgressGrant,
    ProxyConnection,
    ProxyRequest,
    ProxySession,
    Record,
    ignore_failure,
)
from agent.security.network.service_connection import reset_socket
from agent.security.network.socket_supervisor import SocketSupervisor
from agent.security.network.target_listener import TargetListener
from agent.security.network.targets import placeholder_addresses
from agent.security.sandbox.netns_listener import PROXY, SUPERVISOR, TARGETS

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
BACKLOG = 128
# Errors of `accept` that end when other connections do (accept(2)).
_LACKS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_LACK_INTERVAL_S = 1.0
# Maximum number of descriptors that the kernel passes at once.
_MAX_LISTENERS = 253
# These names mean the command's own network, unless a person has granted a service of the host.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# Connections to a listener lead to a service, to targets or, with None, to the proxy.
Purpose = LocalService | TargetListener | None


class EgressProxy:
    """Proxy for one command.

    Use `channel` for a sandbox that hands over its own listeners, or `listener`. `session` has the
    results. The proxy is closed completely when the `open` context ends.
    """

    def __init__(
        self,
        grant: EgressGrant,
        record: Record,
        report_failure: Callable[[str, str], None] = ignore_failure,
    ) -> None:
        self.session = ProxySession(grant, record, report_failure=report_failure)
        self._token = b""
        self._password = ""
        self._sockets: list[socket.socket] = []
        self._supervisor: SocketSupervisor | None = None
        self._connection_count = 0
        self._loop = asyncio.get_running_loop()
        self._listeners: asyncio.Queue[tuple[socket.socket, Purpose]] = asyncio.Queue()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        grant: EgressGrant,
        record: Record,
        report_failure: Callable[[str, str], None] = ignore_failure,
    ) -> AsyncIterator["EgressProxy"]:
        """Run a proxy while the context is open.

        `report_failure` gets each allowed address at which nothing answers, and the reason.
        """
        proxy = cls(grant, record, report_failure)
        serving = asyncio.create_task(proxy._serve(), name="proxy")
        try:
            yield proxy
        finally:
            serving.cancel()
            await asyncio.wait({serving})
            if proxy._supervisor is not None:
                proxy._supervisor.close()
            for sock in proxy._sockets:
                proxy._loop.remove_reader(sock)
                sock.close()

    @property
    def has_hosts(self) -> bool:
        return bool(self.session.grant.hosts)

    @property
    def services(self) -> tuple[LocalService, ...]:
        return self.session.grant.services

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(map(str, self.session.grant.targets))

    @property
    def host_addresses(self) -> Mapping[str, str]:
        return placeholder_addresses(self.session.grant.targets)

    def channel(self) -> tuple[int, str, tuple[str, ...]]:
        """Open an inheritable Unix socket over which the sandbox sends its listeners.

        Returns the socket, the password for the proxy ('' without hosts), and the names that
        programs reach without the proxy: those of the command's own network and the targets. The
        caller closes the socket.
        The socket has no name, and the listeners are in another network namespace: only programs of
        the same conversation can connect, and only the command knows the password.
        """
        self._password = secrets.token_urlsafe(TOKEN_BYTES) if self.has_hosts else ""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._sockets.append(ours)
        self._loop.add_reader(ours, self._receive, ours)
        grant = self.session.grant
        own = [name for name in LOOPBACK_NAMES if name not in grant.hosts]
        own += [target.place for target in grant.targets if target.is_single]
        return theirs.detach(), self._password, tuple(dict.fromkeys(own))

    def listener(self) -> tuple[int, bytes]:
        """Open a port of 127.0.0.1; each connection must begin with the returned token."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._use(listener)
        return listener.getsockname()[1], self._token

    def _receive(self, channel: socket.socket) -> None:
        self._loop.remove_reader(channel)
        with suppress(OSError):
            places, descriptors, _, _ = socket.recv_fds(channel, _MAX_LISTENERS, _MAX_LISTENERS)
            supervisor, target_listener = None, None
            for place, descriptor in zip(places, descriptors, strict=True):
                if place == SUPERVISOR:
                    supervisor = descriptor
                    continue
                listener = socket.socket(fileno=descriptor)
                if place == TARGETS:
                    target_listener = TargetListener(listener, self.session.grant.targets)
                    self._use(listener, target_listener)
                else:
                    self._use(listener, None if place == PROXY else self.services[place - 1])
            if supervisor is not None:
                self._supervisor = SocketSupervisor(supervisor, self.session, target_listener)

    def _use(self, listener: socket.socket, purpose: Purpose = None) -> None:
        listener.setblocking(False)
        self._sockets.append(listener)
        self._listeners.put_nowait((listener, purpose))

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._accept(*await self._listeners.get()))

    async def _accept(self, listener: socket.socket, purpose: Purpose) -> None:
        """Serve the connections to a listener; reset those beyond the limit at once."""
        bounds = self.session.grant.limits
        async with asyncio.TaskGroup() as group:
            for _ in range(bounds.max_connections):
                accepted, peer = await self._next_connection(listener)
                destination: LocalService | ProxyRequest | None
                if isinstance(purpose, TargetListener):
                    destination = purpose.take(peer[1])
                    if destination is None:
                        reset_socket(accepted)
                        continue
                else:
                    destination = purpose
                if self._connection_count >= bounds.max_concurrent:
                    self.session.note_excess(str(destination or "the proxy"))
                    reset_socket(accepted)
                    continue
                self._connection_count += 1
                task = group.create_task(self._attend(accepted, destination))
                task.add_done_callback(partial(self._release, accepted))
            # The kernel refuses new connections from now on.
            self._sockets.remove(listener)
            listener.close()

    async def _next_connection(self, listener: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection, as soon as the machine has a descriptor for it."""
        while True:
            try:
                return await self._loop.sock_accept(listener)
            except OSError as exc:
                if exc.errno not in _LACKS:
                    raise
                log.warning("a connection of a command waits: %s", exc)
            await asyncio.sleep(_LACK_INTERVAL_S)

    def _release(self, accepted: socket.socket, _: object) -> None:
        accepted.close()  # otherwise leaked by a task that was cancelled before it began
        self._connection_count -= 1

    async def _attend(
        self, accepted: socket.socket, destination: LocalService | ProxyRequest | None
    ) -> None:
        """Serve a connection, whose socket may already be closed by the program."""
        limit = self.session.grant.limits.head_bytes
        reader, writer = await asyncio.open_connection(sock=accepted, limit=limit)
        # With this limit, `drain` waits until all data is sent, so that closing never waits.
        writer.transport.set_write_buffer_limits(0)
        connection = ProxyConnection(self.session, reader, writer)
        try:
            if destination is None:
                await connection.serve(self._token, self._password)
            elif isinstance(destination, LocalService):
                await connection.serve_service(destination)
            else:
                await connection.serve_target(destination)
        finally:
            writer.transport.abort()
