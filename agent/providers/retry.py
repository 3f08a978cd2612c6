"""Provider that retries a request, then uses another key, then another model."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from agent.errors import ContextTooLong, KeyRefused, ProviderError, RateLimited, Unavailable
from agent.events import ModelEvent, Notice, Reply, Retry
from agent.i18n import plural, t
from agent.providers.base import ClosingProvider, ModelRequest
from agent.providers.cooldown import Cooldowns, KeyRef
from agent.records import frozen

_FIRST_INTERVAL_S = 0.5
_MAX_INTERVAL_S = 20.0
_MAX_WAIT_S = 60.0
# Longest wait that people prefer to an answer from another model.
_PREFERRED_MODEL_WAIT_S = 5.0
_NO_ACCOUNT = KeyRef("")


@frozen
class ModelCandidate:
    """Model with one of its keys.

    `rank` is the model's position in the chain, 0 for the requested model. Without `model`, the
    model of the request is used.
    """

    provider: ClosingProvider
    model: str | None = None
    account: KeyRef = _NO_ACCOUNT
    rank: int = 0

    def name(self, request: ModelRequest) -> str:
        return f"{self.provider.name}/{self.model or request.model}"


@dataclass(slots=True)
class _Attempt:
    """State of one request: excluded candidates, and the failures of each candidate."""

    request: ModelRequest
    attempts: int = 0
    failures: dict[int, int] = field(default_factory=dict)
    excluded: set[int] = field(default_factory=set)
    rank: int = 0
    error: ProviderError | None = None
    # A stream has failed, and no `Retry` event has declared its output void yet.
    must_report_failure: bool = False


class RetryingProvider:
    """Provider that retries with exponential back-off and full jitter, then asks others.

    The first candidate is asked up to `attempts` times. The error decides which candidate is next:
    another key of the same model after a rate limit or a refused key, another model after an outage
    or a refused request. Candidates in cooldown are skipped (see `Cooldowns`). When all of them are
    cooling down, the provider waits up to a minute for a rate limit, but for nothing else.

    Yields `Retry` before each further attempt: the output of the failed stream is void. Raises
    `ContextTooLong` at once, since the agent loop handles it. Raises the last error when no
    candidate could answer.
    """

    def __init__(
        self,
        candidates: ClosingProvider | Sequence[ModelCandidate],
        *,
        attempts: int = 3,
        cooldowns: Cooldowns | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._candidates = (
            list(candidates) if isinstance(candidates, Sequence) else [ModelCandidate(candidates)]
        )
        self._attempts = attempts
        self._cooldowns = cooldowns or Cooldowns()
        self._sleep = sleep
        self._jitter = jitter

    @property
    def name(self) -> str:
        return self._candidates[0].provider.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        attempt = _Attempt(request)
        while True:
            n = await self._next(attempt)
            if n is None:
                wait_s = self._wait_s(attempt)
                yield self._retry(attempt, wait_s)
                await self._sleep(wait_s)
                continue
            try:
                async with aclosing(self._ask(attempt, n)) as stream:
                    async for event in stream:
                        yield event
                return
            except ContextTooLong:
                raise
            except ProviderError as exc:
                attempt.error, attempt.must_report_failure = exc, True
                wait_s = self._judge(attempt, n, exc)
            if len(attempt.excluded) == len(self._candidates):
                raise self._final_error(attempt)
            if wait_s:
                yield self._retry(attempt, wait_s)
                await self._sleep(wait_s)

    async def aclose(self) -> None:
        """Close all providers."""
        providers = {id(candidate.provider): candidate.provider for candidate in self._candidates}
        async with AsyncExitStack() as stack:
            for provider in providers.values():
                stack.push_async_callback(provider.aclose)

    async def _ask(self, attempt: _Attempt, n: int) -> AsyncGenerator[ModelEvent]:
        """Make one attempt and record its outcome."""
        candidate = self._candidates[n]
        place = candidate.account, candidate.model or attempt.request.model
        has_event = False
        # Before any event, so that no other request becomes the probe in the meantime.
        self._cooldowns.begin(*place)
        try:
            for notice in self._change(attempt, n):
                yield notice
            attempt.attempts += 1
            stream = candidate.provider.stream(replace(attempt.request, model=place[1]))
            # Providers are async generators; closing one ends its connection at once.
            async with aclosing(cast(AsyncGenerator[ModelEvent], stream)):
                async for event in stream:
                    if not has_event:
                        self._cooldowns.mark_answered(*place)
                    has_event = True
                    yield replace(event, rank=candidate.rank) if isinstance(event, Reply) else event
        except ContextTooLong:
            self._cooldowns.mark_answered(*place)
            raise
        finally:
            self._cooldowns.release_probe(*place)

    async def _next(self, attempt: _Attempt) -> int | None:
        """Return the first candidate that may be asked now; None to wait for a cooldown.

        Raises `ProviderError` when that would take too long.
        """
        while True:
            wait_s_by_candidate = {n: self._remaining_s(attempt, n) for n in self._open(attempt)}
            ready = next((n for n, left_s in wait_s_by_candidate.items() if not left_s), None)
            if ready is not None:
                return ready
            # An outage may already be over, so there is no point in waiting; a stated limit is
            # respected.
            eager = next(
                (n for n in wait_s_by_candidate if self._cause(attempt, n)[0] != "limit"), None
            )
            if eager is not None:
                return eager
            if not await self._wait_for_probes(attempt, next(iter(wait_s_by_candidate))):
                break
        if min(wait_s_by_candidate.values()) <= _MAX_WAIT_S:
            return None
        raise self._final_error(attempt)

    def _judge(self, attempt: _Attempt, n: int, error: ProviderError) -> float:
        """Exclude candidates after an error; return the seconds until the next attempt."""
        candidate = self._candidates[n]
        failures = attempt.failures[n] = attempt.failures.get(n, 0) + 1
        again = error.retryable and failures < self._attempts
        if isinstance(error, RateLimited):
            return self._after_limit(attempt, n, error, again=again)
        if again:
            return self._backoff_s(failures)
        if isinstance(error, KeyRefused):
            self._mark_failed(attempt, n, error)
            attempt.excluded.add(n)
            return 0.0
        # The other keys lead to the same server.
        for other, sibling in enumerate(self._candidates):
            if sibling.rank == candidate.rank:
                self._mark_failed(attempt, other, error)
                attempt.excluded.add(other)
        return 0.0

    def _after_limit(self, attempt: _Attempt, n: int, error: RateLimited, *, again: bool) -> float:
        asked_s = error.retry_after_s
        wait_s = self._backoff_s(attempt.failures[n]) if asked_s is None else asked_s
        other_numbers = [
            number
            for number in self._open(attempt)
            if number != n and not self._remaining_s(attempt, number)
        ]
        sibling = any(
            self._candidates[number].rank == self._candidates[n].rank for number in other_numbers
        )
        if again and not sibling and (wait_s <= _PREFERRED_MODEL_WAIT_S or not other_numbers):
            if asked_s is None:
                return wait_s
            self._mark_failed(attempt, n, error)
            if wait_s <= _MAX_WAIT_S:
                return wait_s + self._jitter() * _FIRST_INTERVAL_S
        else:
            self._mark_failed(attempt, n, error)
        attempt.excluded.add(n)
        return 0.0

    def _change(self, attempt: _Attempt, n: int) -> list[ModelEvent]:
        """Return the events before an attempt: `Retry`, and a notice of another model or key."""
        candidate, error = self._candidates[n], attempt.error
        if candidate.rank == attempt.rank:
            notices: list[ModelEvent] = (
                [self._retry(attempt, 0.0)] if attempt.must_report_failure else []
            )
            if notices and isinstance(error, KeyRefused):
                notices.append(Notice("warning", t("{error}; trying another key", error=error)))
            return notices
        before = next(n for n, tried in enumerate(self._candidates) if tried.rank == attempt.rank)
        reason = str(error) if error else self._cause(attempt, before)[1]
        names = (self._candidates[before].name(attempt.request), candidate.name(attempt.request))
        attempt.rank = candidate.rank
        notices = [self._retry(attempt, 0.0, reason)]
        # A skipped model is reported once per turn: later requests end with tool results.
        if error or (attempt.request.messages and attempt.request.messages[-1].role == "user"):
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

    def _retry(self, attempt: _Attempt, wait_s: float, reason: str = "") -> Retry:
        attempt.must_report_failure = False
        if not reason:
            reason = (
                str(attempt.error)
                if attempt.error
                else self._cause(attempt, self._open(attempt)[0])[1]
            )
        most = self._attempts * len(self._candidates)
        return Retry(reason, min(attempt.attempts + 1, most), most, wait_s, attempt.rank)

    def _wait_s(self, attempt: _Attempt) -> float:
        return (
            min(self._remaining_s(attempt, n) for n in self._open(attempt))
            + self._jitter() * _FIRST_INTERVAL_S
        )

    def _final_error(self, attempt: _Attempt) -> ProviderError:
        """Return the error to raise when no candidate is left; a limit says when it ends."""
        if attempt.error is not None and not isinstance(attempt.error, RateLimited):
            return attempt.error
        wait_s_by_candidate = {
            n: self._remaining_s(attempt, n) for n in range(len(self._candidates))
        }
        limits = [
            n
            for n in wait_s_by_candidate
            if wait_s_by_candidate[n] and self._cause(attempt, n)[0] == "limit"
        ]
        if limits:
            return self._cooldown_error(attempt, min(limits, key=lambda n: wait_s_by_candidate[n]))
        return attempt.error or Unavailable(t("no model is available"))

    def _cooldown_error(self, attempt: _Attempt, n: int) -> RateLimited:
        left_s = self._remaining_s(attempt, n)
        stated_s = self._cooldowns.stated_s(*self._place(attempt, n))
        again = t("retry in {spelled}", spelled=humanize_seconds(left_s))
        if stated_s > left_s + 1:
            again = t("for {spelled}; {again}", spelled=humanize_seconds(stated_s), again=again)
        return RateLimited(
            t("{cause} ({again})", cause=self._cause(attempt, n)[1], again=again),
            retry_after_s=left_s,
            hint=t(
                "Try again then, or choose another model: /model in a conversation, "
                "--model for one run, model= in a program."
            ),
        )

    def _backoff_s(self, failures: int) -> float:
        return self._jitter() * min(_MAX_INTERVAL_S, _FIRST_INTERVAL_S * 2.0 ** (failures - 1))

    def _open(self, attempt: _Attempt) -> list[int]:
        return [n for n in range(len(self._candidates)) if n not in attempt.excluded]

    def _place(self, attempt: _Attempt, n: int) -> tuple[KeyRef, str]:
        return self._candidates[n].account, self._candidates[n].model or attempt.request.model

    def _remaining_s(self, attempt: _Attempt, n: int) -> float:
        return self._cooldowns.remaining_s(*self._place(attempt, n))

    def _cause(self, attempt: _Attempt, n: int) -> tuple[str, str]:
        return self._cooldowns.cause(*self._place(attempt, n))

    def _mark_failed(self, attempt: _Attempt, n: int, error: ProviderError) -> None:
        self._cooldowns.mark_failed(*self._place(attempt, n), error)

    async def _wait_for_probes(self, attempt: _Attempt, n: int) -> bool:
        return await self._cooldowns.wait_for_probes(*self._place(attempt, n))


def humanize_seconds(seconds: float) -> str:
    """Return a duration in words, rounded up so that the stated time is not too early."""
    if seconds <= 90:
        return plural(math.ceil(seconds), "{n} second", "{n} seconds")
    if seconds <= 90 * 60:
        return plural(math.ceil(seconds / 60), "{n} minute", "{n} minutes")
    return plural(math.ceil(seconds / 3600), "{n} hour", "{n} hours")
