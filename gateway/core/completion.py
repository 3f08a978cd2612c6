"""Work that completes even when its caller is cancelled."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def run_to_completion(work: Awaitable[T]) -> T:
    """Return the result of the work.

    A cancelled caller waits for the result too, however often it is cancelled.
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
