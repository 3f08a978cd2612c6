"""A link that lets a browser in once."""

import html
from pathlib import Path

import aiohttp

from gateway.config.atomic_write import write_atomic
from gateway.runtime.paths import socket_address
from gateway.server.local_access import ServerAccess

_WAIT_S = 5.0
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Kore</title>
<a href="{link}">Kore</a>
"""


async def login_link(access: ServerAccess) -> str | None:
    """The link, its code in the fragment, which no server and no log sees. None when nobody answers
    there, or no browser can."""
    if not access.web or not access.address.startswith("unix:"):
        return None
    try:
        with socket_address(Path(access.address.removeprefix("unix:"))) as place:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.UnixConnector(place),
                    timeout=aiohttp.ClientTimeout(total=_WAIT_S),
                ) as session,
                session.post("http://localhost/v1/login-codes", json={}) as response,
            ):
                if response.status != 200:
                    return None
                code = (await response.json())["value"]["code"]
                return f"{access.web}/#login={code}"
    except (aiohttp.ClientError, OSError, TimeoutError, KeyError, ValueError):
        return None


def write_link_page(path: Path, link: str) -> None:
    """Write a page that leads to the link, for this user only: the command line of a browser, which
    every user of the machine sees, then names a file."""
    path.unlink(missing_ok=True)
    write_atomic(path, _PAGE.format(link=html.escape(link)))
