"""Names by which the server is reached."""

import ipaddress
from collections.abc import Collection

from yarl import URL

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class HostNames:
    """The server's own name and the names in `server.hosts`.

    A proxy or a tunnel reaches the server by a name in `server.hosts`: `NAME` at the default port,
    over TLS at any port, or `NAME:PORT`.
    """

    def __init__(self, own: str, others: Collection[str] = ()) -> None:
        listed = [split_host(_bracketed(host)) for host in others]
        # Clients and the page dial 127.0.0.1 instead of localhost.
        self._others = [
            ("127.0.0.1" if name == "localhost" else name, port) for name, port in listed
        ]
        self._names = {*_LOOPBACK, own.casefold(), *(name for name, _ in self._others)} - {""}

    def knows(self, host: str) -> bool:
        """Return whether a Host header has one of these names."""
        return split_host(host)[0] in self._names

    def leads_here(self, host: str, scheme: str, local: tuple[str, int]) -> bool:
        """Return whether a client that dials this host reaches this server directly.

        `local` is the address and port that accepted the connection; no other program can listen
        there. A name may resolve to several addresses, and a relaying program may listen on one of
        them (`localhost` at `::1`), so without TLS a name counts only if `server.hosts` lists it.
        """
        name, dialled = split_host(host)
        if dialled is not None and (name, dialled) in self._others:
            return True
        # Every user can listen on another port of this machine, which has many names, so the entry
        # has to include the port. The default ports are reserved for root.
        has_port = dialled is not None and dialled not in _DEFAULT_PORTS.values()
        if (name, None) in self._others and (scheme == "https" or not has_port):
            return True
        address, port = local
        if (dialled or _DEFAULT_PORTS[scheme]) != port:
            return False
        return scheme == "https" or _is_same_address(name, address)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address always refers to this machine."""
    try:
        return host.casefold() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_host(host: str) -> tuple[str, int | None]:
    """Return the name and the port of a Host header; '' as the name if it is malformed."""
    try:
        url = URL(f"//{host}")
        return (url.host or "").casefold(), url.explicit_port
    except ValueError:
        return "", None


def with_port(host: str, port: int) -> str:
    """Return `HOST:PORT` in the form used in a URL."""
    return f"{_bracketed(host)}:{port}"


def _is_same_address(name: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    """Return a host with the brackets that an IPv6 address has in a header."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
