import threading
import urllib.request
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.web.search import Ddgs, DuckDuckGoSearch, SearchEngine, SearchResult, WebSearch
from tests.fakes.web import Page, WebSite


class Asking:
    """A search engine that queries a server, with one hit per line."""

    name = "asking"

    def __init__(self, url: str) -> None:
        self.url = url

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        with urllib.request.urlopen(f"{self.url}/s") as answer:
            lines = answer.read().decode().splitlines()
        return [SearchResult(*line.split("|")) for line in lines]


class Failing:
    name = "failing"

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        raise ToolError("rate limited")


class Empty:
    name = "empty"

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        return []


class Hanging:
    name = "hanging"

    def __init__(self) -> None:
        self.release = threading.Event()

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        self.release.wait(30)
        return []


async def search(
    call: CallContext, *engines: SearchEngine, count: int | None = None, deadline_s: float = 15.0
) -> str:
    tool = WebSearch(ToolSettings(web_search_results=2), engines, deadline_s)
    args = {"query": "kore  assistant"} | ({"count": count} if count is not None else {})
    return (await tool.run(args, call)).for_model


async def test_hits_are_listed_under_a_warning(call: CallContext) -> None:
    async with WebSite() as site:
        site.put("/s", Page(b"One|http://1|first\nTwo|http://2|second\nThree|h|t", "text/plain"))
        text = await search(call, Asking(site.url))
        more = await search(call, Asking(site.url), count=3)
    assert text.splitlines()[0] == "web search for 'kore assistant'"
    assert "Untrusted" in text.splitlines()[1]
    assert text.endswith("1. One\n   http://1\n   first\n2. Two\n   http://2\n   second")
    assert more.endswith("3. Three\n   h\n   t")


async def test_second_engine_is_used_if_the_first_fails_or_finds_nothing(
    call: CallContext,
) -> None:
    async with WebSite() as site:
        site.put("/s", Page(b"One|http://1|first", "text/plain"))
        for first in (Failing(), Empty()):
            assert "One" in await search(call, first, Asking(site.url))


async def test_all_failures_are_named(call: CallContext) -> None:
    with pytest.raises(ToolError, match=r"failing: rate limited; failing: rate limited"):
        await search(call, Failing(), Failing())
    assert "Nothing was found" in await search(call, Failing(), Empty())


async def test_hung_engine_times_out(call: CallContext) -> None:
    hanging = Hanging()
    try:
        with pytest.raises(ToolError, match=r"no answer within 0\.2 s"):
            await search(call, hanging, deadline_s=0.2)
    finally:
        hanging.release.set()


async def test_empty_query_is_rejected(call: CallContext) -> None:
    with pytest.raises(ToolError, match="empty"):
        await WebSearch(ToolSettings(), [Empty()]).run({"query": " \n"}, call)


@pytest.mark.parametrize("engine", [Ddgs(), DuckDuckGoSearch()])
async def test_real_engines_fail_cleanly_without_a_network(
    call: CallContext, engine: SearchEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DDGS_PROXY", "http://127.0.0.1:1")
    before = list(warnings.filters)
    with pytest.raises(ToolError, match=f"search failed.*{engine.name}"):
        await search(call, engine)
    assert list(warnings.filters) == before
