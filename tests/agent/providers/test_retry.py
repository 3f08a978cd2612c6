"""Retries and the fallback model."""

import pytest

from agent.errors import (
    BadReply,
    ContextTooLong,
    ProviderError,
    RateLimited,
    Rejected,
    TimedOut,
    Unavailable,
)
from agent.events import Notice, Reply, Retry
from agent.providers.base import ModelRequest
from agent.providers.cooldown import Cooldowns
from agent.providers.retry import ModelCandidate, RetryingProvider
from agent.providers.scripted import ScriptedProvider, Step
from agent.types import user

ASKED = ModelRequest("m", "", (user("hi"),))


class Waits(list[float]):
    """Recorded sleeps that take no time, with the clock that they advance."""

    now = 0.0

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds


def retrying_provider(
    *steps: Step, fallback: ScriptedProvider | None = None, attempts: int = 3
) -> tuple[RetryingProvider, ScriptedProvider, Waits]:
    provider, waits = ScriptedProvider(steps), Waits()
    seats = [ModelCandidate(provider)] + (
        [ModelCandidate(fallback, "small", rank=1)] if fallback else []
    )
    cooldowns = Cooldowns(lambda: waits.now)
    made = RetryingProvider(
        seats, attempts=attempts, cooldowns=cooldowns, sleep=waits, jitter=lambda: 1.0
    )
    return made, provider, waits


async def events_of(provider: RetryingProvider) -> list[object]:
    return [event async for event in provider.stream(ASKED)]


@pytest.mark.parametrize(
    "error", [Unavailable("x"), TimedOut("x"), BadReply("x"), RateLimited("x")]
)
async def test_temporary_failure_is_retried(error: ProviderError) -> None:
    provider, _, waits = retrying_provider(error, "hello")
    events = await events_of(provider)
    assert events[0] == Retry("x", 2, 3, 0.5)
    assert isinstance(events[-1], Reply)
    assert waits == [0.5]


async def test_waits_grow_and_the_last_error_is_raised() -> None:
    provider, script, waits = retrying_provider(
        *(Unavailable(str(n)) for n in range(8)), attempts=8
    )
    with pytest.raises(Unavailable, match="7"):
        await events_of(provider)
    assert waits == [0.5, 1, 2, 4, 8, 16, 20]
    assert len(script.requests) == 8


async def test_retry_after_is_respected() -> None:
    provider, _, waits = retrying_provider(RateLimited("slow", retry_after_s=12), "hello")
    await events_of(provider)
    assert waits == [12.5]


async def test_too_long_retry_after_is_not_awaited() -> None:
    provider, script, waits = retrying_provider(RateLimited("slow", retry_after_s=61), "hello")
    with pytest.raises(RateLimited):
        await events_of(provider)
    assert waits == []
    assert len(script.requests) == 1


@pytest.mark.parametrize("error", [Rejected("no"), ContextTooLong("long")])
async def test_permanent_error_is_raised_without_a_retry(error: ProviderError) -> None:
    provider, script, _ = retrying_provider(error, "hello")
    with pytest.raises(type(error)):
        await events_of(provider)
    assert len(script.requests) == 1


@pytest.mark.parametrize("steps", [[Unavailable("x")] * 3, [Rejected("x")]])
async def test_fallback_answers_with_its_own_model(steps: list[Step]) -> None:
    other = ScriptedProvider(["from the other"])
    provider, script, _ = retrying_provider(*steps, fallback=other)
    events = await events_of(provider)
    notice = next(event for event in events if isinstance(event, Notice))
    assert "scripted/small" in notice.text
    assert isinstance(events[events.index(notice) - 1], Retry)
    assert isinstance(events[-1], Reply)
    assert len(script.requests) == len(steps)
    assert other.requests[0].model == "small"


async def test_fallback_is_retried_and_its_last_error_is_raised() -> None:
    other = ScriptedProvider([Unavailable("a"), Unavailable("b"), Unavailable("c")])
    provider, _, _ = retrying_provider(Rejected("no"), fallback=other)
    with pytest.raises(Unavailable, match="c"):
        await events_of(provider)
    assert len(other.requests) == 3


async def test_full_window_does_not_use_the_fallback() -> None:
    other = ScriptedProvider(["never"])
    provider, _, _ = retrying_provider(ContextTooLong("long"), fallback=other)
    with pytest.raises(ContextTooLong):
        await events_of(provider)
    assert other.requests == []


async def test_close_closes_provider_and_fallback() -> None:
    other = ScriptedProvider([])
    provider, script, _ = retrying_provider(fallback=other)
    await provider.aclose()
    assert script.closed
    assert other.closed
