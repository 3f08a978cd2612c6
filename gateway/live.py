"""Checks that ask somebody on the network: does the key work, does the bot's token?"""

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agent.errors import KoreError
from agent.providers.base import ModelRequest
from agent.providers.routing import ModelConfig, open_provider
from agent.types import user
from gateway.settings import Settings

_ASK_S = 30
_MAX_TOKENS = 16


async def try_model(config: ModelConfig) -> str:
    """One tiny call; a sentence about how it went. `config` is resolved. Raises `KoreError`."""
    import asyncio

    provider = open_provider(config)
    request = ModelRequest(
        config.model_id, "Answer in one word.", (user("Say hi."),), max_tokens=_MAX_TOKENS
    )
    began = time.monotonic()
    try:
        async with asyncio.timeout(_ASK_S):
            async for _ in provider.stream(request):
                pass
    except TimeoutError:
        raise KoreError(f"{config.model} did not answer within {_ASK_S} s") from None
    finally:
        await provider.aclose()
    return f"{config.model} answered in {time.monotonic() - began:.1f} s"


async def try_telegram(settings: Settings) -> tuple[str, float | None]:
    """The bot's name, and the server's clock minus ours in seconds. Raises `KoreError`."""
    import aiohttp

    token = settings.telegram.token.get_secret_value()
    url = f"{settings.telegram.base_url}/bot{token}/getMe"
    try:
        timeout = aiohttp.ClientTimeout(total=_ASK_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url) as response,
        ):
            body = await response.json(content_type=None)
            skew_s = _skew(response.headers)
    except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
        # The exception's own text holds the address, and the address holds the token.
        raise KoreError(
            f"{settings.telegram.base_url} cannot be asked ({type(exc).__name__})",
            hint="check the network and telegram.base_url",
        ) from None
    match body:
        case {"ok": True, "result": {"username": str(name)}}:
            return f"@{name}", skew_s
        case {"error_code": 401 | 404}:
            raise KoreError(
                "Telegram does not know this token", hint="get the right one from @BotFather"
            )
        case _:
            raise KoreError(f"getMe was answered with status {response.status} and no bot")


def _skew(headers: Mapping[str, str]) -> float | None:
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp() - time.time()
    except (KeyError, ValueError):
        return None
