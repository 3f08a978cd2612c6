import aiohttp
import pytest

from tests.fakes.web import Page, WebSite


async def test_site_serves_redirects_charsets_and_big_bodies(web_site: WebSite) -> None:
    web_site.page("/a", "Grüße", charset="iso-8859-1")
    web_site.redirect("/old", "/a")
    web_site.big("/big", 1_000_000)
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"{web_site.url}/old")
        assert await answer.text() == "Grüße"
        assert len(await (await session.get(f"{web_site.url}/big")).read()) >= 1_000_000
        assert (await session.get(f"{web_site.url}/none")).status == 404
    assert [visit.path for visit in web_site.visits] == ["/old", "/a", "/big", "/none"]


async def test_truncated_body_is_an_error_for_the_client(web_site: WebSite) -> None:
    web_site.put("/cut", Page(b"half", cut=True))
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await (await session.get(f"{web_site.url}/cut")).read()
