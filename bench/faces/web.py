"""Benchmark of the web page in a headless Chromium.

Measures first paint and bytes, a streamed reply below 10,000 messages, scrolling through all of
them, and the heap after an hour's events. The baseline is a page of plain text from the same
server, in the same browser.
"""

import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

from bench.faces.clients import serving
from bench.figure import Figure, percentile
from bench.parts.long import store_talk, summarize_talk
from bench.stage import OWNER, Stage, open_stage
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction
from tests.gateway.server.browser import CHROMIUM, IDLE, browser_context, say

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

MESSAGES, VISITS = 10_000, 9
TOKENS_PER_S, STREAM_S = 200, 8
# Twenty pieces a second for an hour.
HOUR_EVENTS, HOUR_TURNS = 72_000, 12
FIRST_PAINT_MS, FIRST_BYTES_KB, FRAMES_PER_S, HEAP_MB = 300.0, 150.0, 55.0, 10.0
# Any file of the page without a script.
_PLAIN = "/web/vendor/preact.LICENSE"
_PAINT = """
() => new Promise(resolve => new PerformanceObserver(
  list => list.getEntriesByName('first-contentful-paint').map(one => resolve(one.startTime))
).observe({ type: 'paint', buffered: true }))
"""
# Milliseconds between frames, until `stop` is set.
_COUNT_FRAMES = """
() => {
  const frames = (window.frames_ms = [])
  let last = performance.now()
  const count = (now) => {
    frames.push(now - last)
    last = now
    if (!window.stop) requestAnimationFrame(count)
  }
  window.stop = false
  requestAnimationFrame(count)
}
"""
_END_FRAMES = "() => { window.stop = true; return window.frames_ms.slice(1) }"
# From the last message on, 12,000 pixels a second at 60 frames: as fast as a thumb flings.
_SCROLL = """
async () => {
  const feed = document.getElementById('feed')
  for (let n = 0; n < 600 && feed.scrollTop > 0; n++) {
    feed.scrollTop -= 200
    await new Promise(requestAnimationFrame)
  }
}
"""


async def measure(command: Sequence[str]) -> list[Figure]:
    try:
        import playwright  # noqa: F401  # whether it is installed
    except ImportError:
        print("web: not measured, playwright is not installed", file=sys.stderr)
        return []
    if CHROMIUM is None:
        print("web: not measured, chromium is not installed", file=sys.stderr)
        return []
    async with open_stage(command, keep=5) as stage:
        async with serving(stage):
            pass  # creates the database
        with closing(connect(stage.home / "kore.db")) as connection:
            tx = SqliteTransaction(connection)
            session = store_talk(tx, OWNER, MESSAGES)
            summarize_talk(tx, session)
        async with (
            serving(stage) as (_, address, token),
            browser_context() as context,
        ):
            await _log_in(context, address, token)
            return [
                *await _visits(context, address),
                *await _stream(context, stage, f"{address}/#{session}", address),
                *await _scroll(context, f"{address}/#{session}", address),
                *await _hour(context, stage, address),
            ]


async def _log_in(context: "BrowserContext", address: str, token: str) -> None:
    page = await context.new_page()
    await page.goto(address)
    await page.fill(".login input", token)
    await page.press(".login input", "Enter")
    await page.wait_for_selector(".composer textarea")
    await page.close()


async def _visits(context: "BrowserContext", address: str) -> list[Figure]:
    plain, ours = [], []
    for _ in range(VISITS):
        plain.append(await _visit(context, address + _PLAIN, "pre"))
        ours.append(await _visit(context, address, ".composer textarea"))
    paints, usable, sizes = (list(item) for item in zip(*ours, strict=True))
    bare = [paint for paint, _, _ in plain]
    return [
        _sampled("web: first paint", "ms", paints, bare, goal=FIRST_PAINT_MS),
        _sampled("web: until one can write", "ms", usable, bare),
        Figure("web: received for the first screen", "KB", max(sizes), goal=FIRST_BYTES_KB),
    ]


async def _visit(
    context: "BrowserContext", address: str, selector: str
) -> tuple[float, float, float]:
    """Return milliseconds to the first paint and to `selector`, and KB, with an empty cache."""
    received: list[float] = []
    page = await context.new_page()
    network = await context.new_cdp_session(page)
    network.on("Network.loadingFinished", lambda end: received.append(end["encodedDataLength"]))
    await network.send("Network.enable")
    await network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    await page.goto(address)
    await page.wait_for_selector(selector)
    there_ms = float(await page.evaluate("performance.now()"))
    paint_ms = float(await page.evaluate(_PAINT))
    await page.close()
    return paint_ms, there_ms, sum(received) / 1024


def _sampled(name: str, unit: str, times: list[float], bare: list[float], **more: Any) -> Figure:
    return Figure(
        name, unit, statistics.median(times), percentile(times, 0.95),
        bare=statistics.median(bare), note="bare: a page of text", **more,
    )  # fmt: skip


@asynccontextmanager
async def _frames(page: "Page", frames: list[float]) -> AsyncIterator[None]:
    """Record the times between the frames that are drawn during the block."""
    await page.evaluate(_COUNT_FRAMES)
    yield
    frames += await page.evaluate(_END_FRAMES)


async def _bare_frames(context: "BrowserContext", address: str) -> list[float]:
    page, frames = await context.new_page(), list[float]()
    await page.goto(address + _PLAIN)
    async with _frames(page, frames):
        await page.wait_for_timeout(STREAM_S * 1000)
    await page.close()
    return frames


def _frame_figures(name: str, frames: list[float], bare: list[float], note: str) -> list[Figure]:
    rate, bare_rate = (1000 * len(times) / sum(times) for times in (frames, bare))
    return [
        Figure(
            f"{name}, frames a second", "", rate, bare=bare_rate,
            goal=min(FRAMES_PER_S, 0.9 * bare_rate), at_least=True, note=note,
        ),
        Figure(
            f"{name}, a frame", "ms", statistics.median(frames), percentile(frames, 0.95),
            bare=percentile(bare, 0.95), note="bare: the p95 of a page of text",
        ),
    ]  # fmt: skip


async def _stream(
    context: "BrowserContext", stage: Stage, place: str, address: str
) -> list[Figure]:
    count = TOKENS_PER_S * STREAM_S
    text = "".join(f"word{n} " + ("\n\n" if n % 60 == 59 else "") for n in range(count))
    reply = {"text": text, "pieces": count, "chunk_delay_s": 1 / TOKENS_PER_S}
    await stage.model.post("script", [reply])
    page, frames = await context.new_page(), list[float]()
    await page.goto(place)
    await page.wait_for_selector("article.kore")
    opened_ms = await page.evaluate("performance.now()")
    await say(page, "go")
    await page.wait_for_selector(".draft .markdown")
    async with _frames(page, frames):
        await page.wait_for_selector(IDLE, timeout=60_000)
    await page.close()
    note = f"{TOKENS_PER_S} tokens a second; bare: a page of text"
    figures = _frame_figures(
        f"web: streaming beside {MESSAGES:,} messages",
        frames, await _bare_frames(context, address), note,
    )  # fmt: skip
    return [Figure(f"web: opening a session of {MESSAGES:,}", "ms", opened_ms), *figures]


async def _scroll(context: "BrowserContext", place: str, address: str) -> list[Figure]:
    page, frames = await context.new_page(), list[float]()
    await page.goto(place)
    await page.wait_for_selector("article.kore")
    while await page.locator(".earlier").count():
        await page.evaluate("document.querySelector('.earlier')?.click()")
    async with _frames(page, frames):
        await page.evaluate(_SCROLL)
    await page.close()
    bare = await _bare_frames(context, address)
    note = "all of them shown; bare: a page of text that rests"
    return _frame_figures(f"web: scrolling through {MESSAGES:,} messages", frames, bare, note)


async def _hour(context: "BrowserContext", stage: Stage, address: str) -> list[Figure]:
    pieces = HOUR_EVENTS // HOUR_TURNS
    page = await context.new_page()
    await page.goto(address)
    await page.wait_for_selector(".composer textarea")
    await say(page, "first")
    await page.wait_for_selector("article.kore:not(.draft)")
    before_mb = await _heap_mb(page)
    for n in range(HOUR_TURNS):
        await stage.model.post("script", [{"text": "word " * pieces, "pieces": pieces}])
        await say(page, f"turn {n}")
        await page.wait_for_selector(f"article >> nth={2 * n + 3}")
        await page.wait_for_selector(IDLE, timeout=60_000)
    after_mb = await _heap_mb(page)
    note = f"{HOUR_EVENTS:,} pieces of text in {HOUR_TURNS} turns; bare: before them"
    await page.close()
    return [
        Figure(
            "web: heap after an hour's events", "MB", after_mb, bare=before_mb,
            goal=before_mb + HEAP_MB, note=note,
        )
    ]  # fmt: skip


async def _heap_mb(page: "Page") -> float:
    meter = await page.context.new_cdp_session(page)
    await meter.send("Performance.enable")
    await meter.send("HeapProfiler.collectGarbage")
    metrics = (await meter.send("Performance.getMetrics"))["metrics"]
    await meter.detach()
    return (
        next(float(metric["value"]) for metric in metrics if metric["name"] == "JSHeapUsedSize")
        / 2**20
    )
