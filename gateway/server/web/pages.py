"""Files of the web page. They contain nothing private and need no token.

The list of files is read once: a name in a URL is looked up in it and never becomes a path.
"""

import gzip
import hashlib
from functools import cache
from pathlib import Path

from aiohttp import web

from agent.records import frozen
from agent.security.key_proof import literal_address
from gateway.server.guard import is_local, local_address
from gateway.server.host_names import is_loopback

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
    ".json": "application/json",
}
# Nothing from other sites, no inline script, no frame, no form that leaves the page.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types kore dompurify",
    )
)


@frozen
class PageFile:
    """File in the form that is sent. `tag` is its digest."""

    kind: str
    data: bytes
    packed: bytes
    tag: str


def add_web_routes(app: web.Application) -> None:
    app.router.add_get("/", _index)
    app.router.add_get("/web/{name:.+}", _file)


async def _index(request: web.Request) -> web.Response:
    asked_at = f"{request.scheme}://{request.headers.get('Host', '')}"
    address, _ = local_address(request)
    literal = literal_address(asked_at, address if is_loopback(address) else "127.0.0.1")
    if literal != asked_at and not is_local(request):
        # Do not create a key for a name at which another program may also answer.
        raise web.HTTPTemporaryRedirect(f"{literal}/")
    return _answer(request, "index.html")


async def _file(request: web.Request) -> web.Response:
    return _answer(request, request.match_info["name"])


def _answer(request: web.Request, name: str) -> web.Response:
    if name not in file_names():
        raise web.HTTPNotFound(text="there is no such file\n")
    file = read_page_file(name)
    # The browser revalidates at each visit and downloads only a changed file.
    headers = {"ETag": f'"{file.tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    headers["Content-Security-Policy"] = POLICY
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = file.kind
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=file.packed, headers=headers)
    return web.Response(body=file.data, headers=headers)


@cache
def file_names() -> frozenset[str]:
    """Return the names of all files below `/web/`."""
    return frozenset(
        path.relative_to(_FOLDER).as_posix()
        for path in _FOLDER.rglob("*")
        if path.is_file() and path.suffix in _TYPES
    )


@cache
def read_page_file(name: str) -> PageFile:
    """Return a file named in `file_names`, compressed on first request.

    The editor and the terminal are large, and few visits need them.
    """
    path = _FOLDER / name
    data = path.read_bytes()
    tag = hashlib.sha256(data).hexdigest()[:20]
    return PageFile(_TYPES[path.suffix], data, gzip.compress(data, 9), tag)
