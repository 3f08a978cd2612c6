import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.network.urls import Address
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.web.fetch import BODY_LIMIT_BYTES, WebFetch
from tests.fakes.pdf import pdf_of
from tests.fakes.web import Page, WebSite


@pytest.fixture
async def site() -> AsyncIterator[WebSite]:
    async with WebSite() as site:
        yield site


def keeps_marks(folder: Path) -> bool:
    mark_tainted(folder, folder)
    return is_marked(folder)


def loopback(address: Address) -> bool:
    return str(address) == "127.0.0.1"


async def fetch(call: CallContext, url: str, deadline_s: float = 20.0) -> str:
    tool = WebFetch(ToolSettings(), loopback, deadline_s)
    return (await tool.run({"url": url}, call)).for_model


async def test_page_is_markdown_with_its_url_and_a_warning(
    call: CallContext, site: WebSite
) -> None:
    site.page("/a", "<title>T</title><main><h1>Hello</h1><p>wörld</p></main>", charset="latin-1")
    text = await fetch(call, f"{site.url}/a")
    head, _, body = text.partition("\n\n")
    assert head.startswith(f"{site.url}/a\nUntrusted")
    assert body == "# T\n\n# Hello\n\nwörld"


async def test_name_stays_in_the_host_header_while_the_address_is_pinned(
    call: CallContext, site: WebSite
) -> None:
    site.put("/", Page(b"hi", "text/plain"))
    assert "hi" in await fetch(call, f"http://localhost:{site.port}/#frag")
    assert site.visits[0].headers["Host"] == f"localhost:{site.port}"
    assert "Cookie" not in site.visits[0].headers


async def test_private_address_sends_no_request(call: CallContext, site: WebSite) -> None:
    with pytest.raises(ToolError, match="not a public address"):
        await WebFetch(ToolSettings()).run({"url": f"{site.url}/a"}, call)
    assert site.visits == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_relative_to_the_page(
    call: CallContext, site: WebSite, status: int
) -> None:
    site.redirect("/a/b", "../c?x=1", status)
    site.put("/c", Page(b"found", "text/plain"))
    text = await fetch(call, f"{site.url}/a/b")
    assert text.startswith(f"{site.url}/c?x=1\n")
    assert text.endswith("found")


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.2:1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]:1/",
        "//10.0.0.1/", "file:///etc/passwd", "http://user@127.0.0.1:1/", "http://2130706434/",
        "http://[::ffff:127.0.0.1]:1/", "gopher://127.0.0.1:1/",
    ],
)  # fmt: skip
async def test_redirect_is_checked_like_the_first_url(
    call: CallContext, site: WebSite, to: str
) -> None:
    site.redirect("/a", to)
    with pytest.raises(ToolError, match=r"public|Only http|user name"):
        await fetch(call, f"{site.url}/a")
    assert len(site.visits) == 1


async def test_invalid_redirect_is_reported(call: CallContext, site: WebSite) -> None:
    site.redirect("/a", "http://]")
    with pytest.raises(ToolError, match="invalid address"):
        await fetch(call, f"{site.url}/a")


async def test_endless_redirects_end(call: CallContext, site: WebSite) -> None:
    site.loop("/a")
    with pytest.raises(ToolError, match="more than 5 times"):
        await fetch(call, f"{site.url}/a")
    assert len(site.visits) == 6


async def test_five_redirects_are_followed(call: CallContext, site: WebSite) -> None:
    for i in range(5):
        site.redirect(f"/{i}", f"/{i + 1}")
    site.put("/5", Page(b"end", "text/plain"))
    assert (await fetch(call, f"{site.url}/0")).endswith("end")


async def test_json_is_returned_and_binaries_are_rejected(call: CallContext, site: WebSite) -> None:
    site.put("/j", Page(b'{"a": [1]}', "application/json"))
    site.put("/ld", Page(b"{}", "application/ld+json"))
    site.put("/png", Page(b"\x89PNG", "image/png"))
    assert (await fetch(call, f"{site.url}/j")).endswith('{"a": [1]}')
    assert (await fetch(call, f"{site.url}/ld")).endswith("{}")
    with pytest.raises(ToolError, match="image/png"):
        await fetch(call, f"{site.url}/png")


async def test_other_text_is_returned_unchanged(call: CallContext, site: WebSite) -> None:
    for number, kind in enumerate(
        ("text/csv", "application/csv", "text/plain", "application/yaml")
    ):
        site.put(f"/{number}", Page("a,b\n1,<ü>\n".encode(), kind))
        assert (await fetch(call, f"{site.url}/{number}")).endswith("\n\na,b\n1,<ü>\n")


async def test_pdf_becomes_its_text(call: CallContext, site: WebSite) -> None:
    data = pdf_of(["Grüße", "the end"])
    for path, kind in {"/a": "application/pdf", "/b": "application/octet-stream"}.items():
        site.put(path, Page(data, kind))
        text = await fetch(call, f"{site.url}{path}")
        assert "[page 1 of 2]\nGrüße" in text
        assert "the end" in text


async def test_unknown_content_type_is_rejected(call: CallContext, site: WebSite) -> None:
    site.put("/zip", Page(b"PK\x03\x04 and more", "application/octet-stream"))
    with pytest.raises(ToolError, match="octet-stream; only web pages"):
        await fetch(call, f"{site.url}/zip")


async def test_too_long_pdf_is_not_read(call: CallContext, site: WebSite) -> None:
    site.big("/big", 30_000_000, "application/pdf")
    with pytest.raises(ToolError, match="more than 20,000,000 bytes"):
        await fetch(call, f"{site.url}/big")


async def test_error_status_is_reported(call: CallContext, site: WebSite) -> None:
    with pytest.raises(ToolError, match="answered 404"):
        await fetch(call, f"{site.url}/none")


async def test_long_page_is_cut_in_the_middle_and_saved(
    call: CallContext, site: WebSite, workspace: Path
) -> None:
    body = "\n".join(f"line {i}" for i in range(5000)).encode()
    site.put("/long", Page(body, "text/plain"))
    text = await fetch(call, f"{site.url}/long")
    assert len(text.encode()) < 30_500
    [spill] = (workspace / ".kore/spill").glob("*.txt")
    assert str(spill) in text
    assert spill.read_bytes() == body
    assert is_marked(spill) == is_marked(workspace) == keeps_marks(workspace.parent)


async def test_endless_body_is_read_up_to_the_limit(
    call: CallContext, site: WebSite, workspace: Path
) -> None:
    site.big("/big", 50_000_000)
    text = await fetch(call, f"{site.url}/big")
    assert "only the first 5,000,000 bytes" in text
    [spill] = (workspace / ".kore/spill").glob("*.txt")
    assert spill.stat().st_size == BODY_LIMIT_BYTES


async def test_compression_bomb_is_read_up_to_the_limit(
    call: CallContext, site: WebSite, workspace: Path
) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    site.put("/bomb", Page(bomb, "text/plain", headers={"Content-Encoding": "gzip"}))
    assert "only the first 5,000,000 bytes" in await fetch(call, f"{site.url}/bomb")


async def test_silent_and_dripping_servers_time_out(call: CallContext, site: WebSite) -> None:
    site.slow("/slow")
    site.drip("/drip")
    for path in ("/slow", "/drip"):
        with pytest.raises(ToolError, match="did not answer within"):
            await fetch(call, f"{site.url}{path}", 0.3)


async def test_broken_and_refused_connections_are_explained(
    call: CallContext, site: WebSite
) -> None:
    site.put("/cut", Page(b"x" * 10, "text/plain", cut=True))
    for url in (f"{site.url}/cut", "http://127.0.0.1:1/"):
        with pytest.raises(ToolError, match="could not be fetched"):
            await fetch(call, url)
