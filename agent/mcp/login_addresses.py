"""Checks for the addresses that an MCP server makes Kore connect to during a login.

A remote server must not make Kore connect to this machine or its network, however the address is
spelled. Therefore IP addresses are checked instead of names, and Kore connects to the checked one.
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
    """Error for an address that the server must not make Kore connect to."""


async def look_up(host: str) -> Sequence[Address]:
    """Return the addresses of a host; none if the lookup fails."""
    try:
        records = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        return [ip_address(str(record[4][0])) for record in records]
    except (OSError, ValueError):
        return []


async def judge_address(
    server_url: str, address: str, find_addresses: LookUp = look_up
) -> Address | None:
    """Return the address to connect to for a URL of a server's login; None for any address.

    Raises `UnsafeAddress`.
    """
    try:
        own, url = urlsplit(server_url), urlsplit(address)
        own_host, host = own.hostname or "", url.hostname or ""
    except ValueError:
        raise UnsafeAddress from None
    own_addresses = await find_addresses(own_host)
    is_own_host = own_host == host
    is_near = is_own_host or bool(own_addresses and all(map(_is_loopback, own_addresses)))
    is_plain_http = url.scheme == own.scheme == "http" and is_near
    if not host or not (url.scheme == "https" or is_plain_http):
        raise UnsafeAddress
    if is_near:
        return None
    is_elsewhere = all(map(is_public, own_addresses))
    if _uses_proxy(url):
        # The proxy connects, so only literal addresses and local names are checked.
        if not _is_remote_name(host):
            raise UnsafeAddress
        return None
    addresses = await find_addresses(host)
    for candidate in addresses:
        if _is_this_machine(candidate) or (is_elsewhere and not is_public(candidate)):
            raise UnsafeAddress
    if not addresses:
        raise UnsafeAddress
    return addresses[0]


def connect_to(request: httpx2.Request, address: Address | None) -> None:
    """Direct a request to this address; TLS still verifies the host name."""
    if address is None:
        return
    request.extensions = {**request.extensions, "sni_hostname": request.url.host}
    request.url = request.url.copy_with(host=str(address))


def _uses_proxy(url: SplitResult) -> bool:
    proxies = getproxies_environment()
    return url.scheme in proxies or "all" in proxies


def _is_remote_name(host: str) -> bool:
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
