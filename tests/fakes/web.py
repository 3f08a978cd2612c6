"""A fake web site: redirects, big and slow bodies, odd types and charsets.

async with WebSite() as site:
    site.page("/a", "<h1>Hello</h1>")
    site.redirect("/old", "/a")
    ... fetch(f"{site.url}/old") ...
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.loopback import LoopbackServer, reset


@dataclass(frozen=True, slots=True)
class Visit:
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `delay_s` passes before it, `repeat` copies of the body are sent `pause_s` apart.

    `cut` resets the connection after the body.
    """

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    repeat: int = 1
    pause_s: float = 0.0
    cut: bool = False


class WebSite(LoopbackServer):
    """Server for the given pages, 404 for others; `visits` records each request."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.visits: list[Visit] = []
        self._pages: dict[str, Page] = {}
        self.app.router.add_route("*", "/{path:.*}", self._serve)

    def put(self, path: str, page: Page) -> None:
        self._pages[path] = page

    def page(self, path: str, text: str, *, charset: str = "utf-8") -> None:
        """Add an HTML page, encoded and labelled with the charset."""
        self.put(path, Page(text.encode(charset), f"text/html; charset={charset}"))

    def page_with_meta_charset(self, path: str, text: str, charset: str) -> None:
        """Add a page that declares its charset only in a <meta> tag, not in the header."""
        html = f'<html><head><meta charset="{charset}"></head><body>{text}</body></html>'
        self.put(path, Page(html.encode(charset), "text/html"))

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.put(path, Page(status=status, headers={"Location": to}))

    def loop(self, path: str) -> None:
        """Add a page that redirects to itself."""
        self.redirect(path, path)

    def big(self, path: str, size_bytes: int, content_type: str = "text/plain") -> None:
        """Add a body that is streamed without Content-Length."""
        block = b"a" * 65_536
        self.put(path, Page(block, content_type, repeat=-(-size_bytes // len(block))))

    def slow(self, path: str, delay_s: float = 3600.0) -> None:
        """Add a page that accepts the request and then does not respond."""
        self.put(path, Page(b"late", delay_s=delay_s))

    def drip(self, path: str, pause_s: float = 0.05, count: int = 72_000) -> None:
        """Add a page sent byte by byte: no read times out, but it never ends in time."""
        self.put(path, Page(b".", "text/plain", repeat=count, pause_s=pause_s))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.visits.append(Visit(request.path_qs, dict(request.headers)))
        self.changed()
        page = self._pages.get(request.path_qs) or self._pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="not found")
        await self.pause(page.delay_s)
        headers = {"Content-Type": page.content_type, **page.headers}
        if page.repeat == 1 and not page.cut:
            return web.Response(status=page.status, headers=headers, body=page.body)
        response = web.StreamResponse(status=page.status, headers=headers)
        await response.prepare(request)
        for _ in range(page.repeat):
            if self.stopping:
                break
            await response.write(page.body)
            await self.pause(page.pause_s)
        return await reset(request) if page.cut else response
