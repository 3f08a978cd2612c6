"""Time in which questions about calls wait for their answers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class WaitingTime:
    """Seconds, by the `clock`, in which at least one question was open."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open_count = 0
        self._began_s = 0.0
        self.total_s = 0.0

    @contextmanager
    def open_question(self) -> Iterator[None]:
        if self._open_count == 0:
            self._began_s = self._clock()
        self._open_count += 1
        try:
            yield
        finally:
            self._open_count -= 1
            if self._open_count == 0:
                self.total_s += self._clock() - self._began_s


_measured: ContextVar[WaitingTime | None] = ContextVar("measured", default=None)


@contextmanager
def waiting_time(clock: Callable[[], float]) -> Iterator[WaitingTime]:
    """Measure the questions that are asked in this context, also by the tasks begun in it."""
    token = _measured.set(measured := WaitingTime(clock))
    try:
        yield measured
    finally:
        _measured.reset(token)


def open_question() -> AbstractContextManager[None]:
    """Return a context in which a question is open."""
    measured = _measured.get()
    return nullcontext() if measured is None else measured.open_question()
