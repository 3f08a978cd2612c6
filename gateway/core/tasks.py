"""Asyncio tasks: background tasks of a context, and work that completes despite cancellation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
T = TypeVar("T")


@asynccontextmanager
async def task_scope() -> AsyncIterator[Start]:
    """Yield a function that starts tasks.

    The first error of a task ends the context and is raised unchanged.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:

            def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
                tasks.append(group.create_task(work))
                return tasks[-1]

            try:
                yield start
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as several:
        this_task = asyncio.current_task()
        if this_task is not None and this_task.cancelling():
            # A group with errors hides its own cancellation, too.
            raise asyncio.CancelledError from several
        first: BaseException = several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from several


async def run_to_completion(work: Awaitable[T]) -> T:
    """Return the result of the work.

    Even a cancelled caller waits for the result, regardless of repeated cancellation.
    """
    future = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        future.exception()  # no reader is left
        raise
