"""Exit of a gateway that another gateway has replaced.

It can no longer store anything, and the messages that it polls or sends belong to the other
gateway. The exit is as abrupt as a kill, after which nothing is lost.
"""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gateway.store.port import Store

log = logging.getLogger(__name__)

# EX_TEMPFAIL of sysexits.h, after which supervisors restart the process.
REPLACED = 75
_WOKEN = (
    b"kore: stopped for longer than store.lease_s, and another Kore may have taken over the"
    b" database: this one ends at once (what it was working on goes on)\n"
)


async def end_when_replaced(database: Store) -> None:
    """End the process once it is replaced. Await it in the main thread; it never returns."""
    with _ended_on_waking(database):
        await database.until_replaced()
        log.critical(
            "another Kore has taken over the database: this process ends at once; its work"
            " continues there"
        )
        logging.shutdown()
        os._exit(REPLACED)


@contextmanager
def _ended_on_waking(database: Store) -> Iterator[None]:
    """Exit when a process that was stopped (SIGSTOP, Ctrl-Z) continues after its lease. The signal
    is handled before the interrupted code runs on, so that nothing more is sent."""

    def wake(_: int, __: FrameType | None) -> None:
        if not database.is_held():
            # Do not use the log, because the process may have been stopped while writing to it.
            os.write(2, _WOKEN)
            os._exit(REPLACED)

    before = signal.signal(signal.SIGCONT, wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)
