"""Connections of a command to targets, which arrive at a listener in its own network."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent.security.network.proxy_connection import ProxyRequest
from agent.security.network.targets import NetworkTarget, placeholder_addresses


@dataclass(frozen=True, slots=True, eq=False)
class _Arrival:
    """Connection that is about to be accepted."""

    destination: ProxyRequest
    is_accepted: asyncio.Event = field(default_factory=asyncio.Event)


class TargetListener:
    """Listener to which the supervisor connects the sockets of a command instead of its targets.

    The source port tells the destination of a connection, which is announced before it can be
    accepted, and for this connection only. A program that connects to the listener itself reaches
    nothing.
    """

    def __init__(self, listener: socket.socket, targets: tuple[NetworkTarget, ...]) -> None:
        self.address: tuple[str, int] = listener.getsockname()
        self._targets = targets
        self._name_by_address = {
            address: name for name, address in placeholder_addresses(targets).items()
        }
        self._arrivals: dict[int, _Arrival] = {}

    def destination_at(self, address: str, port: int) -> ProxyRequest | None:
        """Return the destination that an address means, or None for the command's own network.

        The other ports of a named host are destinations, too, so that their refusal is recorded.
        """
        host = self._name_by_address.get(address, address)
        if any(target.covers(host, port) or target.has_host(host) for target in self._targets):
            return ProxyRequest(host, port)
        return None

    @contextmanager
    def expecting(self, source_port: int, destination: ProxyRequest) -> Iterator[asyncio.Event]:
        """Announce the destination of the connection from a port, while the context is open.

        The caller holds the socket of the port meanwhile, so that no other can use the port. The
        event is set when the connection is accepted.
        """
        arrival = _Arrival(destination)
        self._arrivals[source_port] = arrival
        try:
            yield arrival.is_accepted
        finally:
            if self._arrivals.get(source_port) is arrival:
                del self._arrivals[source_port]

    def take(self, source_port: int) -> ProxyRequest | None:
        """Return the destination of an accepted connection, or None if no supervisor made it."""
        arrival = self._arrivals.pop(source_port, None)
        if arrival is None:
            return None
        arrival.is_accepted.set()
        return arrival.destination
