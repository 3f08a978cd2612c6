"""Common settings of all connections to a PostgreSQL server."""

import os
import socket
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_CONNECT_S = 10
# An unresponsive server is noticed after about this time.
TIMEOUTS: dict[str, Any] = {
    "connect_timeout": _CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# The server releases the lock of an owner whose machine is gone.
SERVER_TIMEOUTS = (
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)


def own_name() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def application_name(owner: str) -> str:
    """Return the server's name for connections of this process: at most 63 printable characters."""
    return f"kore {owner}".encode("ascii", "replace").decode()[:63]


def public_address(address: str) -> str:
    """Return the address of a server without its password and options."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{user.partition(':')[0]}{at}{host}", parts.path, "", ""))
