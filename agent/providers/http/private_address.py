"""Detection of model servers on this machine or its network, which may be slow."""

import asyncio
import socket
from contextlib import suppress
from ipaddress import ip_address, ip_network

# Longest silence to accept from such a server.
SILENCE_TIMEOUT_S = 1800.0

_LOOKUP_TIMEOUT_S = 2.0
# RFC 6761, 6762 and 8375, and names that routers and containers assign.
_SUFFIXES = (".localhost", ".local", ".lan", ".internal", ".intranet", ".home.arpa", ".docker")
# Benchmark network (RFC 2544): transparent proxies such as Clash answer with its addresses for
# internet names.
_STAND_INS = ip_network("198.18.0.0/15")


def is_private_host(host: str) -> bool | None:
    """Return whether a host is on this machine or a private network.

    Returns None if its name does not show that.
    """
    host = host.rstrip(".").lower()
    try:
        address = ip_address(host.partition("%")[0])
        return not address.is_global and address not in _STAND_INS
    except ValueError:
        pass
    # A name without a dot is this machine, a neighbour or a container.
    return True if "." not in host or host.endswith(_SUFFIXES) else None


async def leads_to_private_address(host: str) -> bool:
    """Return whether all addresses of a name are private; False if it cannot be resolved."""
    with suppress(OSError, TimeoutError, UnicodeError):
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            infos = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
        return all(is_private_host(str(info[4][0])) for info in infos)
    return False
