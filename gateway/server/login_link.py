"""One-time login link for a browser."""

from pathlib import Path

import aiohttp

from gateway.runtime.local_access import ServerAccess
from gateway.runtime.paths import socket_address

_TIMEOUT_S = 5.0


async def login_link(access: ServerAccess) -> str | None:
    """Return a login link with its code in the fragment, which reaches no server and no log.

    Returns None if the server does not answer, or has no address for browsers.
    """
    if not access.web or not access.address.startswith("unix:"):
        return None
    try:
        with socket_address(Path(access.address.removeprefix("unix:"))) as place:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.UnixConnector(place),
                    timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
                ) as session,
                session.post("http://localhost/v1/login-codes", json={}) as response,
            ):
                if response.status != 200:
                    return None
                code = (await response.json())["value"]["code"]
                return f"{access.web}/#login={code}"
    except (aiohttp.ClientError, OSError, TimeoutError, KeyError, ValueError):
        return None
