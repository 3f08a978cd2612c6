"""Connections of a command to targets, which arrive at a listener in its own network."""

import asyncio
import socket

from agent.security.network.proxy_connection import ProxyRequest
from agent.security.network.targets import NetworkTarget, placeholder_addresses

_ARRIVAL_TIMEOUT_S = 10.0


class TargetListener:
    """Listener to which the supervisor connects the sockets of a command instead of its targets.

    The source port tells the destination of a connection. A program that connects to the listener
    itself reaches nothing.
    """

    def __init__(self, listener: socket.socket, targets: tuple[NetworkTarget, ...]) -> None:
        self.address: tuple[str, int] = listener.getsockname()
        self._targets = targets
        self._name_by_address = {
            address: name for name, address in placeholder_addresses(targets).items()
        }
        self._destinations: dict[int, asyncio.Future[ProxyRequest]] = {}

    def destination_at(self, address: str, port: int) -> ProxyRequest | None:
        """Return the destination that an address means, or None for the command's own network.

        The other ports of a named host are destinations, too, so that their refusal is recorded.
        """
        host = self._name_by_address.get(address, address)
        if any(target.covers(host, port) or target.has_host(host) for target in self._targets):
            return ProxyRequest(host, port)
        return None

    def expect(self, source_port: int, destination: ProxyRequest) -> None:
        """Announce the destination of a connection, which may have arrived already."""
        arrival = self._destinations.get(source_port)
        if arrival is None or arrival.done():
            arrival = asyncio.get_running_loop().create_future()
            self._destinations[source_port] = arrival
        arrival.set_result(destination)

    async def destination_from(self, source_port: int) -> ProxyRequest | None:
        """Return the destination of a connection, or None if the supervisor did not make it."""
        arrival = self._destinations.get(source_port)
        if arrival is None:
            arrival = asyncio.get_running_loop().create_future()
            self._destinations[source_port] = arrival
        try:
            async with asyncio.timeout(_ARRIVAL_TIMEOUT_S):
                return await arrival
        except TimeoutError:
            return None
        finally:
            if self._destinations.get(source_port) is arrival:
                del self._destinations[source_port]
