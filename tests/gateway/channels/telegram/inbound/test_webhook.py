import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest

from agent.errors import ConfigError
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.channel import TelegramChannel
from gateway.channels.telegram.inbound.webhook import MAX_UNDER_WAY
from gateway.control.webhooks import BODY_LIMIT_BYTES, serve_webhooks
from gateway.core.channel_events import Batch
from gateway.store.errors import StoreError
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_webhook import WebhookCaller
from tests.fakes.faults import status
from tests.gateway.channels.telegram.conftest import QUICK, Store
from tests.gateway.parts import wait_until

PATH = "/telegram/123456"
SECRET = "X-Telegram-Bot-Api-Secret-Token"


@dataclass
class OpenWebhook:
    """Bot whose webhook is set, and the server that receives its calls."""

    channel: TelegramChannel
    session: aiohttp.ClientSession
    url: str

    async def call(self, body: Any, secret: str | None = None, path: str = PATH) -> int:
        data = body if isinstance(body, bytes | io.BytesIO) else json.dumps(body).encode()
        known = replace(QUICK, webhook_url="http://x").hook_secret
        headers = {SECRET: known if secret is None else secret}
        async with self.session.post(self.url + path, data=data, headers=headers) as answer:
            return answer.status


def update(number: int, text: str = "hi") -> dict[str, Any]:
    person = {"id": 7, "is_bot": False, "first_name": "Ann"}
    chat = {"id": 7, "type": "private"}
    message = {"message_id": number, "date": 1, "chat": chat, "from": person, "text": text}
    return {"update_id": number, "message": message}


Accept = Callable[[str, str, Batch], Any]


@asynccontextmanager
async def open_webhook(api: BotApi, accept: Accept, **changes: Any) -> AsyncIterator[OpenWebhook]:
    settings = replace(QUICK, base_url=api.url, webhook_url="http://proxy.example/", **changes)
    channel = TelegramChannel(settings, gate=RateLimiter(None))

    async def pages(head: list[str]) -> tuple[int, str, str]:
        return 404, "text/plain", head[0]

    async with (
        serve_webhooks("127.0.0.1", 0, pages, {PATH: channel}) as port,
        aiohttp.ClientSession() as session,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(channel.run(accept))
        try:
            await wait_until(lambda: channel.status.state == "webhook")
            yield OpenWebhook(channel, session, f"http://127.0.0.1:{port}")
        finally:
            task.cancel()
            await channel.aclose()


async def test_webhook_is_set_at_the_path_of_the_bot_with_a_secret(
    bot_api: BotApi, store: Store
) -> None:
    async with open_webhook(bot_api, store.accept):
        assert bot_api.methods.webhook_url == f"http://proxy.example{PATH}"
        assert len(bot_api.methods.webhook_secret) == 64
        assert bot_api.token not in bot_api.methods.webhook_secret
    assert bot_api.methods.webhook_url, (
        "it stays when Kore stops, so that Telegram keeps what comes"
    )


async def test_status_200_follows_the_commit(bot_api: BotApi) -> None:
    stored: list[str] = []
    may_store = asyncio.Event()

    async def accept(channel: str, account: str, batch: Batch) -> None:
        await may_store.wait()
        stored.extend(message.content for message in batch.messages)

    async with open_webhook(bot_api, accept) as bot:
        call = asyncio.create_task(bot.call(update(1)))
        await wait_until(lambda: bot.channel._receiver._under_way)  # type: ignore[union-attr]
        assert not call.done()
        may_store.set()
        assert await call == 200
        assert stored == ["hi"]


async def test_webhook_requires_the_secret(bot_api: BotApi, store: Store) -> None:
    async with open_webhook(bot_api, store.accept, webhook_secret="known_1") as bot:
        assert bot_api.methods.webhook_secret == "known_1"
        assert await bot.call(update(1), secret="") == 403
        assert await bot.call(update(1), secret="known_2") == 403
        assert await bot.call(update(1), secret="known_1", path="/telegram/9") == 404
        assert store.messages == []
        assert await bot.call(update(1), secret="known_1") == 200
        assert store.contents == ["hi"]


async def test_invalid_or_oversized_update_is_rejected(bot_api: BotApi, store: Store) -> None:
    async with open_webhook(bot_api, store.accept) as bot:
        for body in (b"", b"{", b"[]", b'{"update_id": "x"}', b"\xff"):
            assert await bot.call(body) == 400
        too_large = io.BytesIO(b" " * (BODY_LIMIT_BYTES + 1))
        assert await bot.call(too_large) == 413
        assert await bot.call({"update_id": 3, "message": {"chat": 1}}) == 200
        assert [item.event_id for item in store.undecoded] == ["update:3"]


async def test_webhook_asks_for_a_retry_if_storing_fails(bot_api: BotApi, store: Store) -> None:
    store.failures.append(StoreError("the disk is full"))
    async with open_webhook(bot_api, store.accept) as bot:
        assert await bot.call(update(1)) == 503
        assert (bot.channel.status.state, "disk is full" in str(bot.channel.status.last_error)) == (
            "storage",
            True,
        )
        assert await bot.call(update(1)) == 200
        assert (bot.channel.status.state, store.contents) == ("webhook", ["hi"])


async def test_slow_update_is_retried_and_stored_once(bot_api: BotApi) -> None:
    stored: list[str] = []
    may_store = asyncio.Event()

    async def accept(channel: str, account: str, batch: Batch) -> None:
        await may_store.wait()
        stored.extend(message.content for message in batch.messages)

    async with open_webhook(bot_api, accept, hook_answer_s=0.05) as bot:
        assert await bot.call(update(1)) == 503
        assert await bot.call(update(1)) == 503
        busy = [await bot.call(update(number)) for number in range(2, MAX_UNDER_WAY + 3)]
        assert set(busy) == {503}
        may_store.set()
        await wait_until(lambda: len(stored) == MAX_UNDER_WAY)
        assert await bot.call(update(1000, "later")) == 200


async def test_redelivered_updates_are_not_lost(bot_api: BotApi, store: Store) -> None:
    store.failures += [StoreError("no"), StoreError("no")]
    async with open_webhook(bot_api, store.accept) as bot, asyncio.TaskGroup() as group:
        caller = WebhookCaller(bot_api, url=bot.url + PATH)
        calling = group.create_task(caller.run())
        for n in range(5):
            await bot_api.user_says(7, f"word {n}")
        await wait_until(lambda: not bot_api.pending_updates)
        calling.cancel()
        assert store.contents == [f"word {n}" for n in range(5)]
        assert caller.status_counts == {503: 2, 200: 5}


async def test_status_shows_the_webhook_error_of_telegram(bot_api: BotApi, store: Store) -> None:
    async with open_webhook(bot_api, store.accept, hook_look_s=0.02) as bot:
        await bot_api.user_says(7, "hi")
        bot_api.methods.webhook_trouble = (2_000_000_000, "SSL error")
        await wait_until(lambda: bot.channel.status.state == "retrying")
        assert "SSL error" in str(bot.channel.status.last_error)
        assert bot.channel.status.pending == 1
        bot_api.updates.drop()
        await wait_until(lambda: bot.channel.status.state == "webhook")
        assert bot.channel.status.last_error is None


async def test_replaced_webhook_is_set_again(bot_api: BotApi, store: Store) -> None:
    async with open_webhook(bot_api, store.accept, hook_look_s=0.02) as bot:
        bot_api.methods.webhook_url = "http://elsewhere.example/"
        await wait_until(lambda: bot.channel.status.state == "conflict")
        await wait_until(lambda: bot_api.methods.webhook_url == f"http://proxy.example{PATH}")
        await wait_until(lambda: bot.channel.status.state == "webhook")


@pytest.mark.parametrize("method", ["getMe", "setWebhook"])
@pytest.mark.parametrize("code", [401, 404])
async def test_rejected_token_is_reported_once_and_retried(
    bot_api: BotApi, store: Store, caplog: pytest.LogCaptureFixture, method: str, code: int
) -> None:
    bot_api.fail(method, status(code), times=3)
    async with open_webhook(bot_api, store.accept, refused_s=0.01, backoff_s=60) as bot:
        assert caplog.text.count("receives nothing") == 1
        assert TOKEN not in caplog.text
        assert await bot.call(update(1)) == 200
    assert store.contents == ["hi"]


async def test_rejected_webhook_address_needs_the_owner(bot_api: BotApi, store: Store) -> None:
    text = "Bad Request: bad webhook: HTTPS url must be provided"
    bot_api.fail("setWebhook", status(400, description=text))
    settings = replace(QUICK, base_url=bot_api.url, webhook_url="http://proxy.example")
    channel = TelegramChannel(settings, gate=RateLimiter(None))
    with pytest.raises(ConfigError, match=r"telegram\.webhook_url.*HTTPS url"):
        await channel.run(store.accept)
    assert channel.status.state == "refused"
    await channel.aclose()


async def test_polling_removes_the_webhook(bot_api: BotApi, store: Store, running: Any) -> None:
    async with open_webhook(bot_api, store.accept):
        pass
    async with running():
        await bot_api.user_says(7, "hi")
        await wait_until(lambda: store.contents == ["hi"])
        assert bot_api.methods.webhook_url == ""
