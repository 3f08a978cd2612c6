"""Driver for `kore tui` with a real service behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from gateway.cli.console.output.status_line import StatusLine
from gateway.cli.tui.full_screen import FullScreen
from gateway.cli.tui.session_tab import SessionTab
from gateway.cli.tui.tab_conversation import TabStart
from gateway.control.service import Service

DEADLINE_S = 60


@dataclass(frozen=True)
class Screens:
    full_screen: FullScreen
    pilot: Pilot[None]

    @property
    def tab(self) -> SessionTab:
        tab = self.full_screen.tab
        assert tab is not None
        return tab

    @property
    def feed_text(self) -> str:
        """Whole text of the feed in the active tab."""
        return self.tab.feed.plain_text()

    @property
    def titles(self) -> list[str]:
        return [str(tab.title_text) for tab in self.full_screen.query(SessionTab)]

    async def write(self, text: str) -> None:
        """Type the text into the input line and press Enter."""
        self.tab.input.insert(text)
        await self.pilot.press("enter")

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not is_so():
                await self.pilot.pause()

    async def see(self, *words: str) -> str:
        """Wait until all of these words are in the feed of the active tab."""
        try:
            await self.until(lambda: all(word in self.feed_text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} not in {self.feed_text[-2000:]}") from None
        return self.feed_text


@asynccontextmanager
async def full_screen_of(
    service: Service,
    folder: Path,
    *,
    sessions: Sequence[str] = (),
    start: TabStart | None = None,
    size: tuple[int, int] = (100, 30),
) -> AsyncIterator[Screens]:
    start = start or TabStart(folder)
    full_screen = FullScreen(
        service,
        start,
        lambda place: StatusLine(place.options, "model", "ask", lambda _: 1000),
        sessions,
        folder,
    )
    # Animations would differ from snapshot to snapshot.
    full_screen.animation_level = "none"
    async with full_screen.run_test(size=size) as pilot:
        yield Screens(full_screen, pilot)
