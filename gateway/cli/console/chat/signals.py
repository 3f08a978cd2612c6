"""Ctrl-C and the signals that end a program, while a conversation has the terminal."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def signals(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Until the block ends Ctrl-C calls this; what ends the program cancels the running task."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    if main is not None:
        # Leave in order: a terminal that stays without echo is hard to mend.
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, main.cancel)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
