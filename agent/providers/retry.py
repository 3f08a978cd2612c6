"""Try again, then with another key, then another model: a provider around providers."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from agent.errors import ContextTooLong, KeyRefused, ProviderError, RateLimited, Unavailable
from agent.events import ModelEvent, Notice, Reply, Retry
from agent.i18n import plural, t
from agent.providers.base import ClosingProvider, ModelRequest
from agent.providers.cooldown import Cooldowns, KeyRef
from agent.records import frozen

_BASE_S = 0.5
_CAP_S = 20.0
_PATIENCE_S = 60.0
# What a person would rather wait than be answered by another model.
_LOYALTY_S = 5.0
_NO_ACCOUNT = KeyRef("")


@frozen
class ModelCandidate:
    """One way to be answered: a model, asked with one of its keys.

    `rank` is the model's place in the chain, 0 for the one that was wanted; without `model` it is
    the request's own.
    """

    provider: ClosingProvider
    model: str | None = None
    account: KeyRef = _NO_ACCOUNT
    rank: int = 0

    def name(self, request: ModelRequest) -> str:
        return f"{self.provider.name}/{self.model or request.model}"


@dataclass(slots=True)
class _Attempt:
    """What one request has come to: seats that it asks no more, and how often it asked each."""

    request: ModelRequest
    attempts: int = 0
    failures: dict[int, int] = field(default_factory=dict)
    excluded: set[int] = field(default_factory=set)
    rank: int = 0
    error: ProviderError | None = None
    # A stream has failed, and nobody has been told yet that what it said is void.
    void: bool = False


class RetryingProvider:
    """Asks the first seat `attempts` times with exponential back-off and full jitter, then others.

    What goes wrong decides who is next: after a rate limit or a refused key another key of the
    same model, after an outage or a refused request another model. Seats that rest are passed
    over (see `Cooldowns`); when all of them do, a rate limit is waited for up to a minute, and
    nothing else is. Yields `Retry` before each further attempt: what the failed stream had said is
    void. `ContextTooLong` is raised at once, since the loop mends it. The last error is raised
    when nobody could answer.
    """

    def __init__(
        self,
        seats: ClosingProvider | Sequence[ModelCandidate],
        *,
        attempts: int = 3,
        cooldowns: Cooldowns | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._seats = list(seats) if isinstance(seats, Sequence) else [ModelCandidate(seats)]
        self._attempts = attempts
        self._cooldowns = cooldowns or Cooldowns()
        self._sleep = sleep
        self._jitter = jitter

    @property
    def name(self) -> str:
        return self._seats[0].provider.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        this = _Attempt(request)
        while True:
            n = await self._next(this)
            if n is None:
                wait_s = self._rest_s(this)
                yield self._retry(this, wait_s)
                await self._sleep(wait_s)
                continue
            try:
                async with aclosing(self._ask(this, n)) as stream:
                    async for event in stream:
                        yield event
                return
            except ContextTooLong:
                raise
            except ProviderError as exc:
                this.error, this.void = exc, True
                wait_s = self._judge(this, n, exc)
            if len(this.excluded) == len(self._seats):
                raise self._last(this)
            if wait_s:
                yield self._retry(this, wait_s)
                await self._sleep(wait_s)

    async def aclose(self) -> None:
        """Close all providers."""
        async with asyncio.TaskGroup() as group:
            for provider in {id(seat.provider): seat.provider for seat in self._seats}.values():
                group.create_task(provider.aclose())

    async def _ask(self, this: _Attempt, n: int) -> AsyncGenerator[ModelEvent]:
        """One attempt; what it comes to is noted."""
        seat = self._seats[n]
        place = seat.account, seat.model or this.request.model
        has_event = False
        # Before anything is told: nobody else may take it for the one to probe meanwhile.
        self._cooldowns.begin(*place)
        try:
            for notice in self._change(this, n):
                yield notice
            this.attempts += 1
            stream = seat.provider.stream(replace(this.request, model=place[1]))
            # Providers are async generators; closing one ends its connection at once.
            async with aclosing(cast(AsyncGenerator[ModelEvent], stream)):
                async for event in stream:
                    if not has_event:
                        self._cooldowns.mark_answered(*place)
                    has_event = True
                    yield replace(event, rank=seat.rank) if isinstance(event, Reply) else event
        except ContextTooLong:
            self._cooldowns.mark_answered(*place)
            raise
        finally:
            self._cooldowns.release_probe(*place)

    async def _next(self, this: _Attempt) -> int | None:
        """The first seat that may be asked now; None when there is a rest to wait for.

        Raises `ProviderError` when that would take too long.
        """
        while True:
            wait_by_seat = {n: self._left_s(this, n) for n in self._open(this)}
            ready = next((n for n, left_s in wait_by_seat.items() if not left_s), None)
            if ready is not None:
                return ready
            # Nobody gains by not asking what may be up again; a stated limit is kept, though.
            eager = next((n for n in wait_by_seat if self._cause(this, n)[0] != "limit"), None)
            if eager is not None:
                return eager
            if not await self._wait_for_probes(this, next(iter(wait_by_seat))):
                break
        if min(wait_by_seat.values()) <= _PATIENCE_S:
            return None
        raise self._last(this)

    def _judge(self, this: _Attempt, n: int, error: ProviderError) -> float:
        """Who is not asked any more; returns the seconds until the next attempt."""
        seat = self._seats[n]
        failures = this.failures[n] = this.failures.get(n, 0) + 1
        again = error.retryable and failures < self._attempts
        if isinstance(error, RateLimited):
            return self._after_limit(this, n, error, again=again)
        if again:
            return self._backoff_s(failures)
        if isinstance(error, KeyRefused):
            self._rest(this, n, error)
            this.excluded.add(n)
            return 0.0
        # The other keys lead to the same server.
        for other, one in enumerate(self._seats):
            if one.rank == seat.rank:
                self._rest(this, other, error)
                this.excluded.add(other)
        return 0.0

    def _after_limit(self, this: _Attempt, n: int, error: RateLimited, *, again: bool) -> float:
        asked_s = error.retry_after_s
        wait_s = self._backoff_s(this.failures[n]) if asked_s is None else asked_s
        others = [one for one in self._open(this) if one != n and not self._left_s(this, one)]
        sibling = any(self._seats[one].rank == self._seats[n].rank for one in others)
        if again and not sibling and (wait_s <= _LOYALTY_S or not others):
            if asked_s is None:
                return wait_s
            self._rest(this, n, error)
            if wait_s <= _PATIENCE_S:
                return wait_s + self._jitter() * _BASE_S
        else:
            self._rest(this, n, error)
        this.excluded.add(n)
        return 0.0

    def _change(self, this: _Attempt, n: int) -> list[ModelEvent]:
        """What is told before an attempt: that another model or key is asked, that all is void."""
        seat, error = self._seats[n], this.error
        if seat.rank == this.rank:
            notices: list[ModelEvent] = [self._retry(this, 0.0)] if this.void else []
            if notices and isinstance(error, KeyRefused):
                notices.append(Notice("warning", t("{error}; trying another key", error=error)))
            return notices
        before = next(n for n, one in enumerate(self._seats) if one.rank == this.rank)
        reason = str(error) if error else self._cause(this, before)[1]
        names = (self._seats[before].name(this.request), seat.name(this.request))
        this.rank = seat.rank
        notices = [self._retry(this, 0.0, reason)]
        # Passed over, it is told once in a turn: later requests end with what tools said.
        if error or (this.request.messages and this.request.messages[-1].role == "user"):
            notices.append(
                Notice(
                    "warning",
                    t(
                        "{model} failed, trying {other}: {reason}"
                        if error
                        else "{model} is cooling down, trying {other}: {reason}",
                        model=names[0],
                        other=names[1],
                        reason=reason,
                    ),
                )
            )
        return notices

    def _retry(self, this: _Attempt, wait_s: float, reason: str = "") -> Retry:
        this.void = False
        if not reason:
            reason = str(this.error) if this.error else self._cause(this, self._open(this)[0])[1]
        most = self._attempts * len(self._seats)
        return Retry(reason, min(this.attempts + 1, most), most, wait_s, this.rank)

    def _rest_s(self, this: _Attempt) -> float:
        return min(self._left_s(this, n) for n in self._open(this)) + self._jitter() * _BASE_S

    def _last(self, this: _Attempt) -> ProviderError:
        """What is raised when nobody is left to ask: a limit tells when it is over."""
        if this.error is not None and not isinstance(this.error, RateLimited):
            return this.error
        wait_by_seat = {n: self._left_s(this, n) for n in range(len(self._seats))}
        limits = [n for n in wait_by_seat if wait_by_seat[n] and self._cause(this, n)[0] == "limit"]
        if limits:
            return self._resting(this, min(limits, key=lambda n: wait_by_seat[n]))
        return this.error or Unavailable(t("no model is available"))

    def _resting(self, this: _Attempt, n: int) -> RateLimited:
        left_s = self._left_s(this, n)
        stated_s = self._cooldowns.stated_s(*self._place(this, n))
        again = t("retry in {spelled}", spelled=humanize_seconds(left_s))
        if stated_s > left_s + 1:
            again = t("for {spelled}; {again}", spelled=humanize_seconds(stated_s), again=again)
        return RateLimited(
            t("{cause} ({again})", cause=self._cause(this, n)[1], again=again),
            retry_after_s=left_s,
            hint=t(
                "Try again then, or choose another model: /model in a conversation, "
                "--model for one run."
            ),
        )

    def _backoff_s(self, failures: int) -> float:
        return self._jitter() * min(_CAP_S, _BASE_S * 2.0 ** (failures - 1))

    def _open(self, this: _Attempt) -> list[int]:
        return [n for n in range(len(self._seats)) if n not in this.excluded]

    def _place(self, this: _Attempt, n: int) -> tuple[KeyRef, str]:
        return self._seats[n].account, self._seats[n].model or this.request.model

    def _left_s(self, this: _Attempt, n: int) -> float:
        return self._cooldowns.left_s(*self._place(this, n))

    def _cause(self, this: _Attempt, n: int) -> tuple[str, str]:
        return self._cooldowns.cause(*self._place(this, n))

    def _rest(self, this: _Attempt, n: int, error: ProviderError) -> None:
        self._cooldowns.mark_failed(*self._place(this, n), error)

    async def _wait_for_probes(self, this: _Attempt, n: int) -> bool:
        return await self._cooldowns.wait_for_probes(*self._place(this, n))


def humanize_seconds(seconds: float) -> str:
    """A time as people say it, rounded up: what is promised must not be early."""
    if seconds <= 90:
        return plural(math.ceil(seconds), "{n} second", "{n} seconds")
    if seconds <= 90 * 60:
        return plural(math.ceil(seconds / 60), "{n} minute", "{n} minutes")
    return plural(math.ceil(seconds / 3600), "{n} hour", "{n} hours")
