"""Values per event loop: connections and locks cannot move between loops."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Value for each running loop, made on first use.

    A program may call `asyncio.run` several times with the same agent, or have a loop in each of
    several threads.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            value = self._values[loop] = self._make()
        return value

    def take(self) -> list[T]:
        """Remove and return the values of this loop and of closed loops."""
        current = asyncio.get_running_loop()
        ended = [loop for loop in list(self._values) if loop is current or loop.is_closed()]
        return [self._values.pop(loop) for loop in ended]

    def take_closed(self) -> list[T]:
        """Remove and return the values of closed loops."""
        ended = [loop for loop in list(self._values) if loop.is_closed()]
        return [self._values.pop(loop) for loop in ended]


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the work in a new loop. Raises `RuntimeError` within a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise RuntimeError("run_sync cannot be used in a running event loop: await run instead")
