"""Parallel runs: results in order, failures separate."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, TypeVar

from agent.errors import ConfigError, KoreError
from agent.i18n import t
from agent.records import frozen
from agent.types import OutputT, Result, Usage

T = TypeVar("T")


@frozen
class ParallelResults(Generic[OutputT]):
    """Results of several runs: `results` in the order of the inputs, None for a failed run.

    `errors` are keyed by the input's position, from 0.
    """

    results: tuple[Result[OutputT] | None, ...]
    errors: Mapping[int, KoreError]

    @property
    def usage(self) -> Usage:
        return sum((result.usage for result in self.results if result is not None), Usage())

    @property
    def cost_usd(self) -> float | None:
        """Cost of the successful runs; None if the cost of any is unknown."""
        costs = [result.cost_usd for result in self.results if result is not None]
        return None if None in costs else sum(filter(None, costs))

    def all(self) -> tuple[Result[OutputT], ...]:
        """Return every result. Raises the first error, if there is one."""
        for place in sorted(self.errors):
            raise self.errors[place]
        return tuple(result for result in self.results if result is not None)


async def run_parallel(
    inputs: Iterable[T], run: Callable[[T], Awaitable[Result[OutputT]]], limit: int
) -> ParallelResults[OutputT]:
    """Run each input once, up to `limit` of them at a time.

    Any exception except `KoreError` ends all runs and is raised.
    """
    if limit < 1:
        raise ConfigError(
            t(
                "limit: expected {expected}, found {value}",
                expected=t("a count above 0"),
                value=limit,
            )
        )
    results: dict[int, Result[OutputT] | None] = {}
    errors: dict[int, KoreError] = {}
    numbered = enumerate(inputs)

    async def work() -> None:
        # Each worker takes the next input only when it is free: a long list waits in the iterator.
        for place, argument in numbered:
            results[place] = None
            try:
                results[place] = await run(argument)
            except KoreError as exc:
                errors[place] = exc

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(limit):
                group.create_task(work())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    return ParallelResults(tuple(results[place] for place in sorted(results)), errors)
