"""Checks over the network whether a model's key and a bot's token work."""

import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from agent.errors import KoreError
from agent.i18n import t
from agent.providers.base import ModelRequest
from agent.providers.opening import open_provider, proxy_of
from agent.providers.registry import ModelConfig
from agent.proxies.outbound import OutboundProxy, open_session, proxy_for
from agent.records import frozen
from agent.types import user
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.config import Settings

_ASK_S = 30
_MAX_TOKENS = 16


async def check_model_key(config: ModelConfig) -> str:
    """One tiny call; a sentence about how it went. `config` is resolved. Raises `KoreError`."""
    import asyncio

    provider = open_provider(config)
    request = ModelRequest(
        config.model_id, "Answer in one word.", (user("Say hi."),), max_tokens=_MAX_TOKENS
    )
    began = time.monotonic()
    limit_s = max(_ASK_S, config.timeout_s or 0)
    try:
        async with asyncio.timeout(limit_s):
            async for _ in provider.stream(request):
                pass
    except TimeoutError:
        raise KoreError(
            t("{name} timed out after {n} s", name=config.model, n=f"{limit_s:g}")
        ) from None
    finally:
        await provider.aclose()
    took = time.monotonic() - began
    answer = t("{model} responded in {seconds:.1f} s", model=config.model, seconds=took)
    return answer + through(proxy_of(config))


class ServiceUnreachable(KoreError):
    """No answer at all: the key or token may be valid."""


@frozen
class BotIdentity:
    """Who a token stands for; `skew_s` is the server's clock minus ours."""

    id: int
    username: str
    name: str
    skew_s: float | None = None

    @property
    def link(self) -> str:
        return f"https://t.me/{self.username}"


async def try_telegram(settings: Settings) -> tuple[str, float | None]:
    """The bot's name, and the server's clock minus ours in seconds. Raises `KoreError`."""
    telegram = TELEGRAM.section_of(settings)
    token = telegram.token.get_secret_value()
    bot = await check_bot_token(token, telegram.base_url, telegram.proxy)
    proxy = proxy_for(telegram.base_url, os.environ, telegram.proxy)
    return f"@{bot.username}{through(proxy)}", bot.skew_s


def through(proxy: OutboundProxy | None) -> str:
    """Return the end of a sentence that names the proxy in use; empty without one."""
    return t(" through the proxy {proxy}", proxy=proxy.name) if proxy else ""


async def check_bot_token(token: str, base_url: str, proxy: str | None = None) -> BotIdentity:
    """Ask a Bot API server whose token this is (core.telegram.org/bots/api#getme).

    Raises `KoreError`; no error holds the token.
    """
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(total=_ASK_S)
        async with (
            open_session(proxy_for(base_url, os.environ, proxy), timeout=timeout) as session,
            session.get(f"{base_url}/bot{quote(token, safe=':')}/getMe") as response,
        ):
            body = await response.json(content_type=None)
            skew_s = _skew(response.headers)
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        # The exception's own text holds the address, and the address holds the token.
        raise _unreachable(base_url, exc) from None
    match body:
        case {"ok": True, "result": {"id": int(number), "username": str(name), **more}}:
            return BotIdentity(number, name, str(more.get("first_name") or name), skew_s)
        case {"error_code": 401 | 404}:
            raise KoreError(
                t("Telegram rejected this token"),
                hint=t("get a valid token from @BotFather"),
            )
        case _:
            raise KoreError(
                t("getMe returned status {status} without a bot", status=response.status)
            )


def _unreachable(base_url: str, exc: Exception) -> KoreError:
    """What stood in the way, without the address that was asked."""
    import aiohttp

    hint = t("check the network and telegram.base_url")
    match exc:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            message = t("the TLS certificate of {address} is not trusted", address=base_url)
            hint = t("install the system's CA certificates, or your proxy's")
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            message = t(
                "the proxy for {address} refused the connection or is not responding",
                address=base_url,
            )
            hint = t("check telegram.proxy, or HTTPS_PROXY in the environment")
        case aiohttp.ClientConnectorDNSError():
            message = t("could not resolve {address}", address=base_url)
        case TimeoutError():
            message = t("{address} timed out after {n} s", address=base_url, n=_ASK_S)
        case _:
            kind = type(exc).__name__
            message = t("could not connect to {address} ({kind})", address=base_url, kind=kind)
    return ServiceUnreachable(message, hint=hint)


def _skew(headers: Mapping[str, str]) -> float | None:
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp() - time.time()
    except (KeyError, ValueError):
        return None
