"""Addresses in the private network of a conversation's commands."""

import string
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
# Characters that every reader of URLs understands alike; curl expands brackets and braces.
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~:/?#&=+,;!%*()'$")


def is_own_host(host: str) -> bool:
    """Return whether a host, in lower case, is the network that the command itself is in."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_own_address(word: str, service_ports: Collection[int] = ()) -> bool:
    """Return whether an argument is an http address in the command's own network.

    At the `service_ports`, services outside of it answer.
    """
    if word[:1] == "-" or not set(word.replace("//[::1]", "//localhost")) <= _PLAIN:
        return False
    url = word if "://" in word else f"http://{word}"
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return False
    return (
        parts.scheme in _PORTS
        and port not in service_ports
        and parts.hostname is not None
        and is_own_host(parts.hostname)
    )
