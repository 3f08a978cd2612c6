"""Services of this machine that commands in a sandbox may reach: loopback ports."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address

from agent.records import frozen

_LOOPBACK = ("127.0.0.1", "::1")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+):([0-9]{1,5})", re.ASCII)
# Lower ports cannot be opened in the network of a command, which has no capabilities.
_FIRST_PORT, _LAST_PORT = 1024, 65_535
# Docker's own ports, without and with TLS.
_ENGINE_PORTS = (2375, 2376)
# State and local addresses in /proc/net/tcp and tcp6.
_LISTENING = "0A"
_HOST_BY_ADDRESS = {
    "0100007F": "127.0.0.1",
    "00000000": "127.0.0.1",
    "0" * 32: "127.0.0.1",
    "0" * 24 + "01000000": "::1",
}
_PORT = re.compile(r"(?<![\d.])\d{4,5}(?![\d.]*\d)", re.ASCII)
_MAX_NAMED = 3


@frozen
class LocalService:
    """Service at a port of a loopback address; its text is `127.0.0.1:5432` or `[::1]:5432`."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "LocalService":
        """Parse `127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`, which means 127.0.0.1.

        Raises `ValueError` with a sentence for anything else.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:60]!r} is not 127.0.0.1:PORT or [::1]:PORT.")
        host, port = match[1].strip("[]").lower(), int(match[2])
        if host == "localhost":
            host = _LOOPBACK[0]
        with suppress(ValueError):
            host = str(ip_address(host))
        if host not in _LOOPBACK:
            raise ValueError(f"{text[:60]} is not at 127.0.0.1 or ::1; hosts have no port.")
        if not _FIRST_PORT <= port <= _LAST_PORT:
            raise ValueError(f"{text[:60]}: the port must be {_FIRST_PORT} to {_LAST_PORT}.")
        return cls(host, port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_engine(self) -> bool:
        """True if it is known to control containers, which makes its users root."""
        return self.port in _ENGINE_PORTS


def names_service(text: str) -> bool:
    """Return whether a text is meant as a local service rather than as the name of a host."""
    return _ADDRESS.fullmatch(text) is not None


def split_services(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[LocalService, ...]]:
    """Return the names of hosts, and the local services among the names."""
    hosts, services = [], []
    for name in names:
        try:
            services.append(LocalService.parse(name))
        except ValueError:
            hosts.append(name)
    return tuple(hosts), tuple(services)


def mentioned_services(text: str) -> tuple[LocalService, ...]:
    """Return a few services of this machine whose ports are numbers in a text. May block."""
    ports = {int(port) for port in _PORT.findall(text)}
    own = _own_ports()
    services = {
        LocalService(host, port): None
        for host, port, _ in _listening_sockets()
        if host and port in ports - own and port >= _FIRST_PORT
    }
    return tuple(services)[:_MAX_NAMED]


@frozen
class OwnServices:
    """Services of Kore itself, which no command may reach.

    `ports` are its ports, to which this process adds those at which it listens; `find_ports`
    returns those of other processes of Kore.
    """

    ports: tuple[int, ...] = ()
    find_ports: Callable[[], Iterable[int]] = tuple

    def objection(self, service: LocalService) -> str | None:
        """Return why commands may not reach this service; None if they may. May block."""
        if service.port in {*self.ports, *self.find_ports(), *_own_ports()}:
            return f"{service} belongs to Kore itself, which no command can reach."
        return None


def _own_ports() -> frozenset[int]:
    """Return the ports at which this process listens."""
    own = set(_own_sockets())
    return frozenset(port for _, port, inode in _listening_sockets() if inode in own)


def _own_sockets() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")


def _listening_sockets() -> Iterator[tuple[str, int, str]]:
    """Yield host, port and inode of each TCP socket that listens; '' for a host that is not
    loopback."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/self/net/{table}") as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == _LISTENING:
                    address, _, port = words[1].rpartition(":")
                    yield _HOST_BY_ADDRESS.get(address, ""), int(port, 16), words[9]
