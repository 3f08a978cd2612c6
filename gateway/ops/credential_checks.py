"""Network check of a model's key."""

import asyncio
import time

from agent.errors import KoreError
from agent.i18n import t
from agent.providers.base import ModelRequest
from agent.providers.opening import open_provider, proxy_of
from agent.providers.registry import ModelConfig
from agent.proxies.outbound import through
from agent.types import user

_ASK_TIMEOUT_S = 30
_MAX_TOKENS = 16


async def check_model_key(config: ModelConfig) -> str:
    """Send a minimal request with a resolved `config`; return a sentence about the result.

    Raises `KoreError`.
    """
    provider = open_provider(config)
    request = ModelRequest(
        config.model_id, "Answer in one word.", (user("Say hi."),), max_tokens=_MAX_TOKENS
    )
    began = time.monotonic()
    limit_s = max(_ASK_TIMEOUT_S, config.timeout_s or 0)
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
