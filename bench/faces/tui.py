"""Benchmark of the full-screen terminal with a session of 5,000 messages.

Measures a key, a streamed word and a resized window. The baseline is a textual program of a few
lines in the same run. Everything runs in textual's own test harness, without a terminal: delays of
the harness are in both columns.
"""

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bench.figure import Figure, percentile

if TYPE_CHECKING:
    from textual.pilot import Pilot

MESSAGES, KEYS, RESIZES = 5_000, 100, 12
# Over bare textual.
GOAL_MS = 30.0


async def measure(command: Sequence[str]) -> list[Figure]:
    async with _bare() as pilot:
        bare_keys = await _timed(KEYS, lambda n: pilot.press(_letter(n)))
        bare_sizes = await _timed(RESIZES, lambda n: pilot.resize_terminal(100 + n, 40))
    async with _ours() as (pilot, stream):
        keys = await _timed(KEYS, lambda n: pilot.press(_letter(n)))
        sizes = await _timed(RESIZES, lambda n: pilot.resize_terminal(100 + n, 40))
        words = await _timed(KEYS, lambda _: stream(pilot))
    name = f"tui beside {MESSAGES:,} messages"
    bare = statistics.median(bare_keys)
    return [
        Figure(
            f"{name}: a key", "ms", statistics.median(keys), percentile(keys, 0.95), bare=bare,
            goal=bare + GOAL_MS, note="bare: a textual TextArea",
        ),
        Figure(
            f"{name}: another width", "ms", statistics.median(sizes), percentile(sizes, 0.95),
            bare=statistics.median(bare_sizes),
        ),
        Figure(
            f"{name}: a streamed word, painted", "ms", statistics.median(words),
            percentile(words, 0.95),
        ),
    ]  # fmt: skip


async def _timed(count: int, act: Callable[[int], Awaitable[Any]]) -> list[float]:
    """Return the milliseconds of each call."""
    times = []
    for n in range(count):
        began = time.perf_counter()
        await act(n)
        times.append((time.perf_counter() - began) * 1000)
    return times


def _letter(n: int) -> str:
    return "abcdefghij"[n % 10]


@asynccontextmanager
async def _bare() -> "AsyncIterator[Pilot[None]]":
    from textual.app import App
    from textual.widgets import TextArea

    app: App[None] = App()
    async with app.run_test(size=(100, 40)) as pilot:
        await app.mount(area := TextArea())
        area.focus()
        await pilot.pause()
        yield pilot


@asynccontextmanager
async def _ours() -> "AsyncIterator[tuple[Pilot[None], Callable[[Pilot[None]], Awaitable[None]]]]":
    """Yield a tab whose session has `MESSAGES` messages, and a function that streams a word."""
    import tempfile
    from pathlib import Path

    from agent import events
    from gateway.app import open_app
    from gateway.cli.console.output.status_line import StatusLine
    from gateway.cli.tui.full_screen import FullScreen
    from gateway.cli.tui.tab_conversation import TabStart
    from gateway.config.load import load_settings
    from gateway.core.messages import MessageOptions
    from gateway.core.records import MessageStored
    from gateway.runtime.paths import DataDir

    with tempfile.TemporaryDirectory() as name:
        home, options = Path(name), MessageOptions()
        settings = load_settings(
            config=None, home=home, cwd=home, environ={}, overrides={"agent.model": "offline/echo"}
        )

        def new_status() -> StatusLine:
            return StatusLine(options, "offline/echo", "ask", lambda _: 128_000)

        async with open_app(settings, DataDir(home), channels=False) as app:
            full_screen = FullScreen(app.service, TabStart(home, options), new_status)
            async with full_screen.run_test(size=(100, 40)) as pilot:
                tab = full_screen.tab
                assert tab is not None
                for seq, message in enumerate(_talk(), 1):
                    tab.conversation.content.take(MessageStored(seq, 0.0, message))
                tab.feed.show_news()
                await pilot.pause()

                async def stream(pilot: "Pilot[None]") -> None:
                    tab.conversation.content.take(events.TextDelta("word "))
                    tab.feed.show_news()
                    await pilot.pause()

                yield pilot, stream


def _talk() -> "list[Any]":
    from agent.types import assistant, user

    answer = "A **paragraph** of some words, with `code` in it.\n\n- one\n- two\n\nThe end of it."
    return [
        user(f"question {n} " + "and more words " * (n % 9)) if n % 2 else assistant(answer)
        for n in range(MESSAGES)
    ]
