"""A model that says a few words, then waits for the test to release it."""

import asyncio
from collections.abc import AsyncIterator, Callable

from agent.events import ModelEvent, Reply, TextDelta
from agent.providers.base import ModelRequest
from agent.types import assistant


class Gated:
    """Model that answers `re: TEXT` to each message once `let_go` was called for it.

    `texts` lists the texts of the requests so far, `running` counts the current requests and `most`
    is their maximum.
    """

    name = "gated"

    def __init__(self, *, is_open: Callable[[str], bool] = lambda _: False) -> None:
        self.texts: list[str] = []
        self.running = 0
        self.most = 0
        self._is_open = is_open
        self._all = False
        self._let_go: set[str] = set()
        self._news = asyncio.Event()

    def let_go(self, *texts: str) -> None:
        """Release the given texts, or all of them."""
        self._all = self._all or not texts
        self._let_go.update(texts)
        self._wake_waiting()

    async def wait_for_text(self, text: str) -> None:
        async with asyncio.timeout(30):
            while text not in self.texts:
                await self._wait()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        text = next(m.text for m in reversed(request.messages) if m.role == "user")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield TextDelta("re: ")
            self.texts.append(text)
            self._wake_waiting()
            while not (self._all or text in self._let_go or self._is_open(text)):
                await self._wait()
            yield TextDelta(text)
            yield Reply(assistant(f"re: {text}"), None, "stop")
        finally:
            self.running -= 1

    async def aclose(self) -> None: ...

    async def _wait(self) -> None:
        await self._news.wait()

    def _wake_waiting(self) -> None:
        """Wake all waiting tasks."""
        news, self._news = self._news, asyncio.Event()
        news.set()
