"""Network targets of a server: hosts and addresses with a port, also in private networks."""

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from agent.records import frozen
from agent.security.local_services import LocalService
from agent.security.network.urls import NAT64, Address, host_name
from agent.security.policy.roles import ANY

_TEXT = re.compile(r"(\[[0-9A-Fa-f:./]+\]|[^\[\]:]+):([0-9]{1,5}|\*)", re.ASCII)
_MAX_PORT = 65_535
# Services of clouds that give credentials to whoever asks, outside of the link-local addresses.
_METADATA = tuple(
    ip_network(net)
    for net in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23")
)
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
# Reserved for benchmarks, so that no network uses these addresses.
_PLACEHOLDERS = IPv4Network("198.18.0.0/16")


@frozen
class NetworkTarget:
    """Host or range of addresses, and a port; None for all ports.

    Its text is `nas.local:5432`, `192.168.1.5:*`, `10.0.0.0/8:5432` or `[fd00::/8]:443`. Exactly
    one of `host` and `addresses` is set.
    """

    port: int | None
    host: str = ""
    addresses: IPv4Network | IPv6Network | None = None

    @classmethod
    def parse(cls, text: str) -> "NetworkTarget":
        """Parse `HOST:PORT`, `ADDRESS:PORT` or `ADDRESS/BITS:PORT`, each with `*` for all ports.

        `localhost` means 127.0.0.1. Raises `ValueError` with a sentence for anything else.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:60]!r} is not HOST:PORT, ADDRESS/BITS:PORT or HOST:*.")
        port = None if match[2] == ANY else int(match[2])
        if port is not None and not 0 < port <= _MAX_PORT:
            raise ValueError(f"{text[:60]}: the port must be 1 to {_MAX_PORT}, or *.")
        place = match[1].strip("[]")
        if place.lower() == "localhost":
            place = "127.0.0.1"
        addresses = _range(place, text)
        if addresses is None:
            return cls(port, host=_single_host(place, text))
        _check_range(addresses, port, text)
        return cls(port, addresses=addresses)

    def covers(self, host: str, port: int) -> bool:
        """Return whether a connection to this host, a name or an address, is allowed.

        A range contains neither the addresses of this machine nor the metadata services of clouds;
        someone who names one of these exactly means it.
        """
        if self.port not in (None, port):
            return False
        address = address_of(host)
        if address is None or self.addresses is None:
            return bool(self.host) and self.host == host
        return address in self.addresses and (self.is_single or not is_special(address))

    def has_host(self, host: str) -> bool:
        """Return whether it is exactly this host, which is not loopback, at whatever port."""
        address = address_of(host)
        if address is None or self.addresses is None:
            return bool(self.host) and self.host == host
        return self.is_single and address in self.addresses and not address.is_loopback

    def __str__(self) -> str:
        port = ANY if self.port is None else self.port
        return f"[{self.place}]:{port}" if ":" in self.place else f"{self.place}:{port}"

    @property
    def place(self) -> str:
        """Name, address or range of addresses."""
        if self.addresses is None:
            return self.host
        return str(self.addresses.network_address if self.is_single else self.addresses)

    @property
    def is_single(self) -> bool:
        """True for a name or one address."""
        return self.addresses is None or self.addresses.num_addresses == 1


def _range(place: str, text: str) -> IPv4Network | IPv6Network | None:
    """Return the addresses that a text names, or None for a name. Raises `ValueError`."""
    try:
        if "/" in place:
            return ip_network(place)
        return ip_network(_unmapped(ip_address(place)))
    except ValueError as exc:
        if "/" in place or ":" in place:
            raise ValueError(f"{text[:60]!r}: {exc}.") from exc
        return None


def _single_host(name: str, text: str) -> str:
    with suppress(ValueError, UnicodeError):
        if not name.startswith("*"):
            return host_name(name)
    raise ValueError(f"{text[:60]!r}: a port needs one host, an address or a range of addresses.")


def _check_range(addresses: IPv4Network | IPv6Network, port: int | None, text: str) -> None:
    """Raise `ValueError` for addresses that no target may have."""
    first = addresses.network_address
    if (first.is_unspecified and addresses.num_addresses == 1) or addresses.is_multicast:
        raise ValueError(f"{text[:60]}: nothing can be reached at this address.")
    if addresses.is_loopback and (port is None or addresses.num_addresses > 1):
        raise ValueError(f"{text[:60]}: name each address and port of this machine.")
    if addresses.is_link_local and addresses.num_addresses > 1:
        raise ValueError(f"{text[:60]}: name each address of the local link.")


def is_special(address: Address) -> bool:
    """Return whether only someone who names exactly this address may reach it.

    These are the addresses of this machine itself, of the local link, of groups, of tunnels, and of
    the metadata services of clouds.
    """
    address = _unmapped(address)
    if isinstance(address, IPv6Address) and address in NAT64:
        address = IPv4Address(int(address) & 0xFFFF_FFFF)
    if isinstance(address, IPv4Address):
        is_apart = address in _THIS_NETWORK
    else:
        is_apart = address.is_site_local or bool(address.sixtofour or address.teredo)
    return (
        is_apart
        or address.is_loopback
        or address.is_unspecified
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or any(address in net for net in _METADATA)
    )


def address_of(host: str) -> Address | None:
    """Return the address that a text is, an IPv4 address instead of its IPv6 form, or None."""
    with suppress(ValueError):
        return _unmapped(ip_address(host))
    return None


def _unmapped(address: Address) -> Address:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def placeholder_addresses(targets: Iterable[NetworkTarget]) -> dict[str, str]:
    """Return an address for the name of each target, which a command connects to instead."""
    names = dict.fromkeys(target.host for target in targets if target.host)
    return {name: str(_PLACEHOLDERS[number]) for number, name in enumerate(names, 1)}


@frozen
class NetworkReach:
    """Everything that a server may reach: public `hosts`, local `services`, and `targets`."""

    hosts: tuple[str, ...] = ()
    services: tuple[LocalService, ...] = ()
    targets: tuple[NetworkTarget, ...] = ()

    @classmethod
    def parse(cls, names: Iterable[str]) -> "NetworkReach":
        """Parse names of hosts, `*` for all public hosts, local services and targets.

        Raises `ValueError` with a sentence.
        """
        hosts: list[str] = []
        services: list[LocalService] = []
        targets: list[NetworkTarget] = []
        for name in names:
            entry = parse_entry(name)
            if isinstance(entry, LocalService):
                services.append(entry)
            elif isinstance(entry, NetworkTarget):
                targets.append(entry)
            else:
                hosts.append(entry)
        return cls(tuple(hosts), tuple(services), tuple(targets))


def parse_entry(text: str) -> str | LocalService | NetworkTarget:
    """Parse one entry of the `network` of a server. Raises `ValueError` with a sentence."""
    if text == ANY:
        return text
    with suppress(ValueError):
        return host_name(text)
    if text.startswith("unix:"):
        return LocalService.parse(text)
    with suppress(ValueError):
        return LocalService.parse(text)
    return NetworkTarget.parse(text)
