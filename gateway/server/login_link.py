"""A link that lets a browser in once."""

import aiohttp

from gateway.server.local_access import ServerAccess

_WAIT_S = 5.0


async def login_link(access: ServerAccess) -> str | None:
    """The link, its code in the fragment, which no server and no log sees. None when nobody answers
    there, or no browser can."""
    if access.address.startswith("unix:"):
        return None
    timeout = aiohttp.ClientTimeout(total=_WAIT_S)
    headers = {"Authorization": f"Bearer {access.token}"}
    try:
        # Our own certificate may be signed by whomever: the address and token are from our file.
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.post(f"{access.address}/v1/login-codes", json={}, ssl=False) as response,
        ):
            if response.status != 200:
                return None
            code = (await response.json())["value"]["code"]
            return f"{access.address}/#login={code}"
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
        return None
