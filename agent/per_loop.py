"""What belongs to one event loop: connections and locks cannot move from one to another."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each running loop, made when it is first wanted.

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
        """This loop's value and those of closed loops, none of which is kept any longer."""
        current = asyncio.get_running_loop()
        ended = [loop for loop in list(self._values) if loop is current or loop.is_closed()]
        return [self._values.pop(loop) for loop in ended]

    def take_closed(self) -> list[T]:
        """The values whose loops are closed; they are not kept any longer."""
        ended = [loop for loop in list(self._values) if loop.is_closed()]
        return [self._values.pop(loop) for loop in ended]


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the work comes to, in a loop of its own. Raises `RuntimeError` within a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise RuntimeError("run_sync cannot be used in a running event loop: await run instead")
