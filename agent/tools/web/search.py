"""`web_search` tool: query search engines in turn until one answers."""

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.proxies.outbound import proxy_for
from agent.records import frozen
from agent.security.taint.taint import UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Effect, JsonSchema, Taint, ToolResult

T = TypeVar("T")

ENGINE_TIMEOUT_S = 10
TIMEOUT_S = 15.0
MAX_RESULTS = 20
MAX_SNIPPET_CHARS = 300
_DUCKDUCKGO = "https://html.duckduckgo.com"


@frozen
class SearchResult:
    """Search result."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """Search engine; `search` blocks and is called in a thread. Raises ToolError."""

    @property
    def name(self) -> str: ...

    def search(self, query: str, count: int) -> Sequence[SearchResult]: ...


class Ddgs:
    """Library ddgs, which asks DuckDuckGo."""

    name: ClassVar[str] = "ddgs"

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException

        try:
            proxy = proxy_for(_DUCKDUCKGO, os.environ)
            results = DDGS(proxy=proxy.url if proxy else None, timeout=ENGINE_TIMEOUT_S).text(
                query, backend="duckduckgo", max_results=count
            )
        except (DDGSException, OSError, ValueError, LookupError, RuntimeError) as exc:
            raise ToolError(_brief(exc)) from exc
        return _hits(results)


class DuckDuckGoSearch:
    """Library duckduckgo-search, whose `text()` asks Bing.

    Its first use makes the whole process show every warning. A guard prevents that, under a lock,
    because two overlapping guards would restore each other's filters.
    """

    name: ClassVar[str] = "duckduckgo-search"

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def search(self, query: str, count: int) -> Sequence[SearchResult]:
        with self._lock, warnings.catch_warnings(record=True):
            from duckduckgo_search import DDGS
            from duckduckgo_search.exceptions import DuckDuckGoSearchException

            client = DDGS(timeout=ENGINE_TIMEOUT_S)
        try:
            results = client.text(query, max_results=count)
        except (DuckDuckGoSearchException, OSError, ValueError, LookupError, RuntimeError) as exc:
            raise ToolError(_brief(exc)) from exc
        return _hits(results)


class WebSearch:
    """Tool that returns titles, addresses and snippets from the first engine that answers."""

    name: ClassVar[str] = "web_search"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "fetch",
        label=mark_for_translation("Searching the web for {query}"),
        argument_aliases={"q": "query", "max_results": "count", "num_results": "count"},
        claude_names=("WebSearch",),
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = UNTRUSTED
    parameters: ClassVar[JsonSchema] = parameters(query="string", count="integer?")

    def __init__(
        self,
        settings: ToolSettings,
        engines: Sequence[SearchEngine] | None = None,
        deadline_s: float = TIMEOUT_S,
    ) -> None:
        self._count = settings.web_search_results
        self._engines: Sequence[SearchEngine] = (
            (Ddgs(), DuckDuckGoSearch()) if engines is None else tuple(engines)
        )
        self._deadline_s = deadline_s

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/web_search")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare that the query is sent to a search engine."""
        return EffectPlan(hosts=("duckduckgo.com",), sends=args["query"])

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        query = " ".join(args["query"].split())
        if not query:
            raise ToolError("The query is empty; say what to search for.")
        count = min(max(1, int(args.get("count", self._count))), MAX_RESULTS)
        failures: list[str] = []
        for engine in self._engines:
            try:
                hits = await self._ask(engine, query, count)
            except ToolError as exc:
                failures.append(f"{engine.name}: {exc}")
                continue
            if hits:
                text = "\n".join(_render_hit(i, hit) for i, hit in enumerate(hits[:count], 1))
                head = render_prompt("untrusted", source=f"web search for {query!r}")
                return ToolResult(f"{head}\n\n{text}", for_user=f"{len(hits)} results for {query}")
        if len(failures) < len(self._engines):
            return ToolResult(f"Nothing was found for {query!r}.")
        raise ToolError(f"The web search failed ({'; '.join(failures)}).")

    async def _ask(self, engine: SearchEngine, query: str, count: int) -> Sequence[SearchResult]:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await _in_own_thread(lambda: engine.search(query, count), engine.name)
        except TimeoutError as exc:
            raise ToolError(f"no answer within {self._deadline_s:g} s") from exc


async def _in_own_thread(work: Callable[[], T], name: str) -> T:
    """Run blocking work that may be abandoned: a hung engine must not fill the shared pool."""
    pool = ThreadPoolExecutor(1, f"search-{name}")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _hits(results: Sequence[Mapping[str, Any]] | None) -> list[SearchResult]:
    return [
        SearchResult(
            str(item.get("title", "")), str(item.get("href", "")), str(item.get("body", ""))
        )
        for item in results or ()
    ]


def _render_hit(number: int, hit: SearchResult) -> str:
    lines = (hit.title, hit.url, hit.snippet[:MAX_SNIPPET_CHARS])
    title, url, snippet = (" ".join(line.split()) for line in lines)
    return f"{number}. {title}\n   {url}\n   {snippet}"


def _brief(exc: Exception) -> str:
    return (" ".join(str(exc).split()) or type(exc).__name__)[:200]
