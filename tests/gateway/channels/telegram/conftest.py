"""Telegram channel in front of the fake Bot API, with waits short enough for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.channel import TelegramChannel
from gateway.channels.telegram.settings import TelegramSettings
from gateway.core.channel_events import Batch, Undecoded
from gateway.core.messages import InboundMessage
from gateway.core.records import MenuCommand
from tests.fakes.bot_api import TOKEN, BotApi

QUICK = TelegramSettings(
    TOKEN, poll_s=1, answer_s=1.0, connect_s=1.0, conflict_s=0.1, backoff_s=0.01,
    backoff_limit_s=0.05, menu=(MenuCommand("help", "List the commands"),),
)  # fmt: skip


class Store:
    """Store of everything that `accept` has put on disk."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.failures: list[Exception] = []
        self.before_return: Callable[[], None] = lambda: None

    async def accept(self, channel: str, account: str, batch: Batch) -> None:
        assert (channel, account) == ("telegram", "123456")
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(batch)
        self.before_return()

    @property
    def messages(self) -> list[InboundMessage]:
        return [message for batch in self.batches for message in batch.messages]

    @property
    def contents(self) -> list[str]:
        return [message.content for message in self.messages]

    @property
    def undecoded(self) -> list[Undecoded]:
        return [item for batch in self.batches for item in batch.undecoded]


Running = Callable[..., AbstractAsyncContextManager[TelegramChannel]]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def channel(bot_api: BotApi) -> AsyncIterator[TelegramChannel]:
    """Yield a channel that only sends."""
    channel = TelegramChannel(replace(QUICK, base_url=bot_api.url), gate=RateLimiter(None))
    yield channel
    await channel.aclose()


@pytest.fixture
def running(bot_api: BotApi, store: Store) -> Running:
    """Return a factory for a polling channel; keyword arguments change its settings."""

    @asynccontextmanager
    async def run(
        cursors: Mapping[str, str] | None = None, **changes: object
    ) -> AsyncIterator[TelegramChannel]:
        settings = replace(QUICK, base_url=bot_api.url, **changes)  # type: ignore[arg-type]
        channel = TelegramChannel(settings, gate=RateLimiter(None), cursors=cursors)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(channel.run(store.accept))
            try:
                yield channel
            finally:
                task.cancel()
                await channel.aclose()

    return run
