"""Normalization of host names, and checks of the URLs that Kore itself requests.

Only public addresses are allowed. A name is resolved once, and the connection goes to the checked
address, so that a second lookup cannot lead elsewhere (DNS rebinding). Every redirect is a new URL
and is checked again.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from yarl import URL

from agent.errors import ToolError
from agent.records import frozen
from agent.security.policy.roles import in_hosts

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME_CHARS = 253


def host_name(text: str) -> str:
    """Return a name as in DNS (IDNA, lower case, no last dot), or an address in its short form.

    `*.example.org` covers all names below a domain. Raises ValueError for anything else, such as an
    address in another notation.
    """
    below, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    if ":" in name or name.replace(".", "").isdigit():
        # A zone (fe80::1%eth0) may contain anything.
        if below or "%" in name:
            raise ValueError("an address has nothing below it, and no zone")
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    plain = name.encode("idna").decode().lower().removesuffix(".")
    last = plain.rpartition(".")[2]
    # A resolver would read it as the number of an address: 0x7f.1
    if not _NAME.fullmatch(plain) or len(plain) > _NAME_CHARS or re.match(r"\d|0x", last):
        raise ValueError("not a host name")
    return below + plain


def shared_hosts(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return the names that both lists allow; an invalid name allows nothing."""
    first_hosts, second_hosts = _normalize_hosts(first), _normalize_hosts(second)
    return tuple(
        dict.fromkeys(
            [
                *(name for name in first_hosts if in_hosts(name, second_hosts)),
                *(name for name in second_hosts if in_hosts(name, first_hosts)),
            ]
        )
    )


def _normalize_hosts(names: Iterable[str]) -> tuple[str, ...]:
    hosts = []
    for name in names:
        try:
            hosts.append(name if name == "*" else host_name(name))
        except ValueError:
            continue
    return tuple(hosts)


Address = IPv4Address | IPv6Address
Allow = Callable[[Address], bool]

# https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast.
SPECIAL_V4 = tuple(
    IPv4Network(net)
    for net in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        # Azure's platform service, reachable from every virtual machine in Azure.
        "168.63.129.16/32",
    )
)
GLOBAL_V6 = IPv6Network("2000::/3")
# https://www.iana.org/assignments/iana-ipv6-special-registry, within 2000::/3.
SPECIAL_V6 = tuple(
    IPv6Network(net) for net in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
NAT64 = IPv6Network("64:ff9b::/96")


@frozen
class ResolvedUrl:
    """URL with the checked addresses of its host."""

    url: URL
    addresses: tuple[str, ...]


def is_public(address: Address) -> bool:
    """Return whether an address is global unicast, including any IPv4 address that it wraps."""
    if isinstance(address, IPv4Address):
        return not any(address in net for net in SPECIAL_V4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_V6 and not any(address in net for net in SPECIAL_V6)


async def resolve_public(url: "URL | str", allow: Allow = is_public) -> ResolvedUrl:
    """Check a URL and resolve its host once.

    Connect to `addresses` only. `allow` is for tests, whose servers are on loopback. Raises
    ToolError if the URL is not http or https, contains a user name, cannot be resolved, or has any
    address that is not public.
    """
    address = read_url(url)
    host = address.raw_host or ""
    try:
        records = await asyncio.get_running_loop().getaddrinfo(
            host, address.port or 0, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as exc:
        raise ToolError(f"The host {host!r} cannot be found; check the address.") from exc
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in records))
    for text in addresses:
        if not _is_allowed(text, allow):
            raise ToolError(
                f"{host} is not a public address ({text}); only public web pages can be fetched."
            )
    if not addresses:
        raise ToolError(f"The host {host!r} has no address.")
    return ResolvedUrl(address, addresses)


def read_url(url: "URL | str") -> URL:
    """Parse a URL as it will be requested.

    All requests use this parser, so that the checked host is the requested host. Raises ToolError
    if the URL is not http or https, or contains a user name.
    """
    try:
        address = URL(url) if isinstance(url, str) else url
        port = address.port
    # yarl raises IndexError for "http://]".
    except (ValueError, TypeError, LookupError) as exc:
        raise ToolError("The URL is invalid; use one like https://example.com/page.") from exc
    if address.scheme not in ("http", "https") or not address.raw_host or not port:
        raise ToolError("Only http and https URLs with a host can be fetched.")
    host = address.raw_host
    if not (host.isascii() and host.isprintable()) or " " in host:
        raise ToolError("The URL contains an invalid host name; use one like https://example.com/.")
    if address.user is not None or address.password is not None:
        raise ToolError("The URL contains a user name or password; remove it.")
    return address


def _is_allowed(text: str, allow: Allow) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    # A zone (fe80::1%eth0) only exists for addresses of the local link.
    return "%" not in text and allow(address)
