"""Check of a bot's token with the Bot API server (core.telegram.org/bots/api#getme)."""

import os
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import aiohttp

from agent.errors import KoreError
from agent.i18n import t
from agent.proxies.outbound import open_session, proxy_for, through
from gateway.channels.spec import ChannelIdentity
from gateway.channels.telegram.spec import TelegramSection, account_of
from gateway.core.errors import ServiceUnreachable

_TIMEOUT_S = 30
# Format: core.telegram.org/bots/features#botfather; the second half has long had 35 characters.
_TOKEN = re.compile(r"[0-9]{5,20}:[A-Za-z0-9_-]{10,}")


def check_token(text: str) -> None:
    """Raise `KoreError` for a text that cannot be a token."""
    if not _TOKEN.fullmatch(text):
        raise KoreError(
            t("this is not a bot token; expected something like 123456789:AAF0…"),
            hint=t("copy the complete token from @BotFather"),
        )


async def identify(section: TelegramSection) -> ChannelIdentity:
    """Return the bot of the token.

    Raises `KoreError`; no error contains the token.
    """
    token, base_url = section.token.get_secret_value(), section.base_url
    proxy = proxy_for(base_url, os.environ, section.proxy)
    try:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with (
            open_session(proxy, timeout=timeout) as session,
            session.get(f"{base_url}/bot{quote(token, safe=':')}/getMe") as response,
        ):
            body = await response.json(content_type=None)
            skew_s = _skew(response.headers)
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        # The exception's text contains the address, and the address contains the token.
        raise _unreachable(base_url, exc) from None
    match body:
        case {"ok": True, "result": {"id": int(number), "username": str(username), **more}}:
            link = f"https://t.me/{username}"
            name = str(more.get("first_name") or username)
            facts = {"id": number, "username": username, "name": name, "link": link}
            return ChannelIdentity(
                account=account_of(token),
                label=f"@{username}",
                link=link,
                facts=facts,
                skew_s=skew_s,
                route=through(proxy),
            )
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
    """Return the reason, without the requested address."""
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
            message = t("{address} timed out after {n} s", address=base_url, n=_TIMEOUT_S)
        case _:
            kind = type(exc).__name__
            message = t("could not connect to {address} ({kind})", address=base_url, kind=kind)
    return ServiceUnreachable(message, hint=hint)


def _skew(headers: Mapping[str, str]) -> float | None:
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp() - time.time()
    except (KeyError, ValueError):
        return None
