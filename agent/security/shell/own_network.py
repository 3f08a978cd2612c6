"""Addresses in the network that the commands of a conversation share with nobody else."""

import string
from ipaddress import ip_address
from urllib.parse import urlsplit

_SCHEMES = ("http", "https")
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


def is_own_address(word: str) -> bool:
    """Return whether an argument is an http address in the command's own network."""
    if word[:1] == "-" or not set(word.replace("//[::1]", "//localhost")) <= _PLAIN:
        return False
    url = word if "://" in word else f"http://{word}"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for an invalid port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and parts.hostname is not None and is_own_host(parts.hostname)
