"""Values per event loop, because connections and locks cannot move between loops."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Value for each running loop, created on first use.

    A program may call `asyncio.run` several times with the same agent, or have a loop in each of
    several threads. `close` is called for a value whose loop ends in an orderly way.
    """

    def __init__(
        self,
        make: Callable[[], T],
        close: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._make = make
        self._close = close
        self._values: dict[asyncio.AbstractEventLoop, T] = {}
        self._guards: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            value = self._values[loop] = self._make()
            if self._close is not None:
                self._guard(loop, value, self._close)
        return value

    def _guard(
        self,
        loop: asyncio.AbstractEventLoop,
        value: T,
        close: Callable[[T], Coroutine[Any, Any, None]],
    ) -> None:
        """Close the value when the loop ends, unless it was taken.

        `asyncio.run` ends the generators that have begun in its loop, and thus this one.
        """

        async def wait() -> AsyncGenerator[None]:
            try:
                yield
            finally:
                if self._values.get(loop) is value:
                    del self._values[loop]
                    await close(value)

        # Modify in place, because loops of other threads add their values meanwhile.
        for closed in [other for other in list(self._guards) if other.is_closed()]:
            self._guards.pop(closed, None)
        guard = self._guards[loop] = wait()
        with suppress(StopIteration):
            guard.__anext__().send(None)

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
