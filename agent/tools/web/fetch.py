"""`web_fetch` tool: fetch one public page as text for the model."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from yarl import URL

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.network.urls import Allow, ResolvedUrl, is_public, read_url, resolve_public
from agent.security.taint.taint import UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.output_spill import SpillBuffer, spill_folder
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.tools.web.pdf import MAX_BYTES as PDF_LIMIT_BYTES
from agent.tools.web.pdf import pdf_text
from agent.types import Effect, JsonSchema, Taint, ToolResult
from agent.version import VERSION

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MAX_REDIRECTS = 5
MAX_ADDRESSES = 4
BODY_LIMIT_BYTES = 5_000_000
TIMEOUT_S = 20.0
CONNECT_TIMEOUT_S = 6
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MARKUP = frozenset({"text/html", "application/xhtml+xml"})
TEXTUAL = frozenset(
    {"application/json", "application/xml", "application/javascript", "application/x-ndjson"}
    | {"application/csv", "application/yaml", "application/x-yaml", "application/toml"}
)
PDF = "application/pdf"
# Content types that servers use for unknown files.
UNKNOWN = frozenset({"application/octet-stream", "binary/octet-stream", "application/x-pdf"})
PDF_BEGINS = b"%PDF-"


@frozen
class _Page:
    url: str
    kind: str
    charset: str | None
    data: bytes
    is_cut: bool


class WebFetch:
    """Tool that fetches a URL: HTML as markdown, a PDF as text, other text unchanged.

    Other content is rejected. Only public addresses are reached (`agent.security.network.urls`).
    `allow` exists for tests only.
    """

    name: ClassVar[str] = "web_fetch"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "fetch",
        ("hosts",),
        mark_for_translation("Reading {url}"),
        aliases=("fetch",),
        argument_aliases={"uri": "url", "link": "url"},
        ignored_arguments=frozenset({"prompt"}),
        claude_names=("WebFetch",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = UNTRUSTED
    parameters: ClassVar[JsonSchema] = parameters(url="string")

    def __init__(
        self, settings: ToolSettings, allow: Allow = is_public, deadline_s: float = TIMEOUT_S
    ) -> None:
        self._limit_bytes = settings.output_limit_bytes
        self._allow = allow
        self._deadline_s = deadline_s

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/web_fetch")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the host, and the address, which it sees completely."""
        url: str = args["url"].strip()
        return EffectPlan(hosts=(read_url(url).raw_host or url,), sends=url)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        from aiohttp import ClientError

        url: str = args["url"].strip()
        try:
            async with asyncio.timeout(self._deadline_s):
                async with _open_public(url, self._allow) as (response, target):
                    page = await _read_page(response, target)
            text = await _text(page)
        except TimeoutError as exc:
            raise ToolError(f"{url} did not answer within {self._deadline_s:g} s.") from exc
        except (ClientError, OSError, ValueError) as exc:
            raise ToolError(f"{url} could not be fetched: {_reason(exc)}.") from exc
        with SpillBuffer(spill_folder(call.workspace), self._limit_bytes, call.workspace) as output:
            output.feed(call.redactor.clean(text).encode("utf-8", "replace"))
        body = output.text() or "(no text)"
        if page.is_cut:
            body += f"\n… (only the first {BODY_LIMIT_BYTES:,} bytes were read)"
        head = render_prompt("untrusted", source=page.url)
        return output.with_truncation_note(
            ToolResult(f"{head}\n\n{body}", for_user=f"Fetched {page.url}")
        )


async def fetch_bytes(url: str, most: int, allow: Allow = is_public) -> bytes:
    """Return up to `most` bytes from a public address. Raises `ToolError`."""
    from aiohttp import ClientError

    data = bytearray()
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            _open_public(url.strip(), allow) as (response, target),
        ):
            _refuse_failure(response, str(target.url))
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) >= most:
                    break
    except TimeoutError as exc:
        raise ToolError(f"{url} did not answer within {TIMEOUT_S:g} s.") from exc
    except (ClientError, OSError, ValueError) as exc:
        raise ToolError(f"{url} could not be fetched: {_reason(exc)}.") from exc
    return bytes(data[:most])


@asynccontextmanager
async def _open_public(
    url: str, allow: Allow
) -> "AsyncGenerator[tuple[ClientResponse, ResolvedUrl]]":
    """Yield the response after all redirects, each of which is checked. Raises `ToolError`."""
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar

    timeout = ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S)
    async with ClientSession(cookie_jar=DummyCookieJar(), timeout=timeout) as session:
        target = await resolve_public(url, allow)
        for _ in range(MAX_REDIRECTS + 1):
            async with await _get(session, target) as response:
                where = response.headers.get("Location")
                if response.status not in REDIRECTS or not where:
                    yield response, target
                    return
                following = target.url.join(_location(where))
            target = await resolve_public(following, allow)
    raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times.")


def _refuse_failure(response: "ClientResponse", url: str) -> None:
    if response.status >= 400:
        raise ToolError(f"{url} answered {response.status} {response.reason or ''}".rstrip() + ".")


async def _get(session: "ClientSession", target: ResolvedUrl) -> "ClientResponse":
    """Try the checked addresses in order; Host and TLS use the host's name."""
    from aiohttp import ClientConnectorError

    url = target.url
    headers = {
        "Host": url.host_port_subcomponent or "",
        "User-Agent": f"Kore/{VERSION}",
        "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1",
    }
    addresses = target.addresses[:MAX_ADDRESSES]
    for number, address in enumerate(addresses, 1):
        try:
            return await session.get(
                url.with_host(address).with_fragment(None),
                headers=headers,
                allow_redirects=False,
                server_hostname=url.raw_host if url.scheme == "https" else None,
            )
        except ClientConnectorError:
            if number == len(addresses):
                raise
    raise AssertionError("a target has at least one address")


async def _read_page(response: "ClientResponse", target: ResolvedUrl) -> _Page:
    url = str(target.url)
    _refuse_failure(response, url)
    kind = response.content_type
    if not (
        kind.startswith("text/")
        or kind in MARKUP | TEXTUAL | UNKNOWN | {PDF}
        or kind.endswith(("+json", "+xml"))
    ):
        raise ToolError(_unreadable(url, kind))
    limit = PDF_LIMIT_BYTES if kind in UNKNOWN | {PDF} else BODY_LIMIT_BYTES
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if kind in UNKNOWN and len(data) >= len(PDF_BEGINS):
            if not data.startswith(PDF_BEGINS):
                raise ToolError(_unreadable(url, kind))
            kind = PDF
        if len(data) > limit:
            break
    is_cut = len(data) > limit
    if is_cut and kind == PDF:
        raise ToolError(f"{url} is a PDF of more than {limit:,} bytes, which is too large to read.")
    return _Page(url, kind, response.charset, bytes(data[:limit]), is_cut)


def _unreadable(url: str, kind: str) -> str:
    return f"{url} is {kind}; only web pages, text, JSON and PDF can be read."


async def _text(page: _Page) -> str:
    if page.kind in UNKNOWN | {PDF}:
        return await pdf_text(page.data)
    markup = page.kind in MARKUP

    def work() -> str:
        # Loads lxml.
        from agent.tools.web.html import decode_page, to_markdown

        text = decode_page(page.data, page.charset, markup=markup)
        return to_markdown(text) if markup else text

    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.to_thread(work)
    except TimeoutError as exc:
        raise ToolError(f"{page.url} took too long to convert.") from exc


def _location(where: str) -> Any:
    try:
        return URL(where)
    except (ValueError, LookupError) as exc:
        raise ToolError("The page redirects to an invalid address.") from exc


def _reason(exc: Exception) -> str:
    text = " ".join(str(exc).split()) or type(exc).__name__
    return text[:200].rstrip(".")
