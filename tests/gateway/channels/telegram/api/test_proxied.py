"""Requests to the Bot API through a proxy."""

import pytest

from agent.proxies.outbound import read_proxy
from gateway.channels.telegram.api.request import AiohttpRequest, RequestNotSent, ResponseLost
from gateway.channels.telegram.settings import TelegramSettings
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.outbound_proxy import HttpProxy, SocksProxy


async def _get_me(proxy_url: str, root: str = "http://bots.example") -> str:
    settings = TelegramSettings(TOKEN, root, read_proxy(proxy_url), answer_s=5.0, connect_s=5.0)
    request = AiohttpRequest(settings)
    try:
        me = await request.call(f"{settings.root}/bot{TOKEN}/getMe", {})
    finally:
        await request.shutdown()
    return str(me["username"])


async def test_bot_is_reached_through_an_http_proxy(bot_api: BotApi) -> None:
    async with HttpProxy(bot_api.port, "me:hidden-word") as proxy:
        assert await _get_me(proxy.url)
    assert proxy.targets == [f"http://bots.example/bot{TOKEN}/getMe"]


async def test_bot_is_reached_through_a_socks_proxy(bot_api: BotApi) -> None:
    pytest.importorskip("aiohttp_socks")
    async with SocksProxy(bot_api.port, "me:hidden-word") as proxy:
        assert await _get_me(proxy.url)
    assert proxy.targets == ["bots.example:80"]


@pytest.mark.parametrize("status", [403, 0])
async def test_request_rejected_by_a_socks_proxy_was_not_sent(bot_api: BotApi, status: int) -> None:
    pytest.importorskip("aiohttp_socks")
    async with SocksProxy(bot_api.port, status=status) as proxy:
        with pytest.raises(RequestNotSent):
            await _get_me(proxy.url)


@pytest.mark.parametrize("status", [407, 502, 0])
async def test_request_without_a_tunnel_was_not_sent(bot_api: BotApi, status: int) -> None:
    async with HttpProxy(bot_api.port, status=status) as proxy:
        with pytest.raises(RequestNotSent):
            await _get_me(proxy.url, "https://bots.example")
    assert proxy.targets == ["bots.example:443"]


async def test_request_whose_tunnel_ends_in_the_tls_handshake_was_not_sent(
    bot_api: BotApi,
) -> None:
    # The Bot API behind this proxy does not use TLS.
    async with HttpProxy(bot_api.port) as proxy:
        with pytest.raises(RequestNotSent):
            await _get_me(proxy.url, "https://bots.example")


async def test_request_cut_by_a_proxy_without_a_tunnel_may_have_been_sent(
    bot_api: BotApi,
) -> None:
    async with HttpProxy(bot_api.port, status=0) as proxy:
        with pytest.raises(ResponseLost):
            await _get_me(proxy.url)
