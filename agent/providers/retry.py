"""Try again, then try another model: a provider around providers."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from agent.errors import ContextTooLong, ProviderError, RateLimited
from agent.events import ModelEvent, Notice, Reply, Retry
from agent.providers.base import ModelRequest, Provider

_BASE_S = 0.5
_CAP_S = 20.0
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Fallback:
    """The model to ask when the first one cannot answer."""

    provider: Provider
    model: str


class Retrying:
    """Asks `attempts` times with exponential back-off and full jitter, then asks the fallback.

    Yields `Retry` before each wait: what the failed stream had said is void. A server's
    `Retry-After` is honoured up to a minute. `ContextTooLong` is raised at once, since the loop
    mends it; other errors that a retry cannot mend go to the fallback at once. The last error is
    raised when nobody could answer.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int = 3,
        fallback: Fallback | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._provider = provider
        self._attempts = attempts
        self._fallback = fallback
        self._sleep = sleep
        self._jitter = jitter

    @property
    def name(self) -> str:
        return self._provider.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        provider, fallback = self._provider, self._fallback
        total = self._attempts * (1 if fallback is None else 2)
        failures = 0
        while True:
            try:
                stream = provider.stream(request)
                # Providers are async generators; closing one ends its connection at once.
                async with aclosing(cast(AsyncGenerator[ModelEvent, None], stream)):
                    async for event in stream:
                        if isinstance(event, Reply) and provider is not self._provider:
                            event = replace(event, by_fallback=True)
                        yield event
                return
            except ContextTooLong:
                raise
            except ProviderError as exc:
                error = exc
            failures += 1
            wait_s = self._wait_s(error, failures)
            if error.retryable and failures < self._attempts and wait_s is not None:
                yield Retry(str(error), failures + 1, total, wait_s)
                await self._sleep(wait_s)
                continue
            if fallback is None:
                raise error
            yield Retry(str(error), self._attempts + 1, total, 0.0, by_fallback=True)
            name = f"{fallback.provider.name}/{fallback.model}"
            yield Notice(
                "warning", f"{provider.name}/{request.model} failed, asking {name}: {error}"
            )
            provider, request = fallback.provider, replace(request, model=fallback.model)
            fallback, failures = None, 0

    async def aclose(self) -> None:
        """Close both providers."""
        try:
            await self._provider.aclose()
        finally:
            if self._fallback is not None:
                await self._fallback.provider.aclose()

    def _wait_s(self, error: ProviderError, failures: int) -> float | None:
        """Seconds until the next attempt; None when the server wants more than our patience."""
        asked = error.retry_after_s if isinstance(error, RateLimited) else None
        if asked is None:
            return self._jitter() * min(_CAP_S, _BASE_S * 2.0 ** (failures - 1))
        return asked + self._jitter() * _BASE_S if asked <= _PATIENCE_S else None
