"""Telegram's webhook calls to a real gateway, through a reverse proxy."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.fakes.bot_webhook import WebhookCaller
from tests.fakes.loopback import LoopbackServer
from tests.gateway.end_to_end.gateway_process import GatewayProcess


class Proxy(LoopbackServer):
    """Proxy that forwards calls to the gateway's current port; without a gateway it answers 502."""

    def __init__(self) -> None:
        super().__init__()
        self.target: str | None = None
        self.app.router.add_post("/{path:.*}", self._pass_on)

    async def _pass_on(self, request: web.Request) -> web.Response:
        headers = {k: v for k, v in request.headers.items() if k.startswith("X-Telegram")}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"{self.target}{request.path}", data=await request.read(), headers=headers
                ) as answer,
            ):
                return web.Response(status=answer.status)
        except (aiohttp.ClientError, OSError):
            return web.Response(status=502)


@asynccontextmanager
async def in_front(gateway: GatewayProcess) -> AsyncIterator[Proxy]:
    """Configure the gateway for a webhook called by Telegram; it is not started yet."""
    async with Proxy() as proxy, asyncio.TaskGroup() as group:
        hook = {"mode": "webhook", "webhook_url": proxy.url}
        gateway.configure({"telegram": hook})
        calling = group.create_task(WebhookCaller(gateway.api).run())
        try:
            yield proxy
        finally:
            calling.cancel()


async def begin(gateway: GatewayProcess, proxy: Proxy) -> None:
    """Start the gateway and set its port in the proxy."""
    known = gateway.output().count("listening for webhooks at")
    await gateway.launch()
    await gateway.until(lambda: gateway.output().count("listening for webhooks at") > known)
    results = re.findall(
        r"listening for webhooks at (http://[0-9.:]+)/telegram/123456", gateway.output()
    )
    proxy.target = results[-1]


async def test_webhook_receives_messages_across_a_kill(alone: GatewayProcess) -> None:
    async with in_front(alone) as proxy:
        await begin(alone, proxy)
        assert await alone.answers_to(7, "one") == ["echo: one"]
        assert (await alone.channel())["state"] == "webhook"
        assert not alone.api.polls_done
        await alone.kill()
        await alone.api.user_says(7, "two")
        await begin(alone, proxy)
        await alone.idle()
        assert alone.api.answers(7) == ["echo: one", "echo: two"]
        assert alone.api.methods.webhook_secret not in alone.log_text()
        await alone.stop()


async def test_health_pages_are_served_next_to_a_webhook(alone: GatewayProcess) -> None:
    async with in_front(alone) as proxy, aiohttp.ClientSession() as session:
        await begin(alone, proxy)
        await alone.until_channel("webhook")
        async with session.get(f"{proxy.target}/healthz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ok", "broken": []})
        async with session.get(f"{proxy.target}/healthz", headers={"Host": "evil.example"}) as no:
            assert no.status == 403
        async with session.post(f"{proxy.target}/telegram/123456", data=b"{}") as stranger:
            assert stranger.status == 403
        await alone.stop()


async def test_return_to_polling_removes_the_webhook_and_loses_nothing(
    alone: GatewayProcess,
) -> None:
    async with in_front(alone) as proxy:
        await begin(alone, proxy)
        await alone.answers_to(7, "one")
        await alone.stop()
        await alone.api.user_says(7, "two")
        proxy.target = None
        alone.configure({})
        await alone.launch()
        await alone.until(lambda: alone.api.methods.webhook_url == "")
        await alone.idle()
        assert alone.api.answers(7) == ["echo: one", "echo: two"]
        await alone.stop()


async def test_webhook_without_an_address_is_rejected_at_startup(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"mode": "webhook"}})
    ran = await alone.kore("gateway")
    assert ran.code == 2
    assert "telegram.webhook_url is required" in ran.err
    alone.configure(
        {
            "telegram": {
                "mode": "webhook",
                "webhook_url": "https://x.example",
                "webhook_secret": "a b",
            }
        }
    )
    ran = await alone.kore("gateway")
    assert ran.code == 2
    assert "telegram.webhook_secret: expected 1 to 256" in ran.err
