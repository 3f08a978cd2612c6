"""Addresses to which an MCP server may lead Kore for a login.

A server elsewhere must not lead it to this machine or its network, by whatever spelling or name. So
addresses are judged and not names, and the connection goes to the address that was judged.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv6Address, ip_address
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies_environment

import httpx2

from agent.security.network.urls import Address, is_public

LookUp = Callable[[str], Awaitable[Sequence[Address]]]


class UnsafeAddress(Exception):
    """A server may not lead Kore there."""


async def look_up(host: str) -> Sequence[Address]:
    """Return the addresses of a host, none for one that cannot be found."""
    try:
        records = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        return [ip_address(str(record[4][0])) for record in records]
    except (OSError, ValueError):
        return []


async def judge_address(
    server_url: str, address: str, find_addresses: LookUp = look_up
) -> Address | None:
    """Return the address to connect to for a URL that belongs to the login of a server; None for
    any that its name has. Raises `UnsafeAddress`."""
    try:
        own, url = urlsplit(server_url), urlsplit(address)
        own_host, host = own.hostname or "", url.hostname or ""
    except ValueError:
        raise UnsafeAddress from None
    own_addresses = await find_addresses(own_host)
    is_own_host = own_host == host
    is_near = is_own_host or bool(own_addresses and all(map(_is_loopback, own_addresses)))
    in_the_clear = url.scheme == own.scheme == "http" and is_near
    if not host or not (url.scheme == "https" or in_the_clear):
        raise UnsafeAddress
    if is_near:
        return None
    is_elsewhere = all(map(is_public, own_addresses))
    if _has_proxy(url):
        # The proxy connects; what is no name is judged all the same.
        if not _is_name_elsewhere(host):
            raise UnsafeAddress
        return None
    addresses = await find_addresses(host)
    for found_address in addresses:
        if _is_this_machine(found_address) or (is_elsewhere and not is_public(found_address)):
            raise UnsafeAddress
    if not addresses:
        raise UnsafeAddress
    return addresses[0]


def connect_to(request: httpx2.Request, address: Address | None) -> None:
    """Let a request go to this address; the server still sees, and proves, the name."""
    if address is None:
        return
    request.extensions = {**request.extensions, "sni_hostname": request.url.host}
    request.url = request.url.copy_with(host=str(address))


def _has_proxy(url: SplitResult) -> bool:
    proxies = getproxies_environment()
    return url.scheme in proxies or "all" in proxies


def _is_name_elsewhere(host: str) -> bool:
    try:
        return is_public(ip_address(host))
    except ValueError:
        name = host.rstrip(".")
        is_number = name.rpartition(".")[2][:1].isdecimal()
        return not is_number and name != "localhost" and not name.endswith(".localhost")


def _is_this_machine(address: Address) -> bool:
    return _is_loopback(address) or address.is_unspecified or address.is_link_local


def _is_loopback(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return _is_this_machine(address.ipv4_mapped)
    return address.is_loopback
