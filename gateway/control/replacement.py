"""Ends a gateway whose place another has taken: it can store nothing any more, and each message
that it still polls or sends is another's by now. As suddenly as a kill, for which all is made."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gateway.store.port import Store

log = logging.getLogger(__name__)

# EX_TEMPFAIL of sysexits.h: start it again.
REPLACED = 75
_WOKEN = (
    b"kore: stopped for longer than store.lease_s, and another Kore may have taken over the"
    b" database: this one ends at once (what it was working on goes on)\n"
)


async def end_when_replaced(database: Store) -> None:
    """Ends the process; never returns. To be awaited in the main thread."""
    with _ended_on_waking(database):
        await database.until_replaced()
        log.critical(
            "another Kore has taken over the database: this one ends at once (what it was working"
            " on goes on there)"
        )
        logging.shutdown()
        os._exit(REPLACED)


@contextmanager
def _ended_on_waking(database: Store) -> Iterator[None]:
    """A process that was stopped (SIGSTOP, Ctrl-Z) and wakes after its lease sends nothing more:
    the signal is handled before whatever it was in the middle of goes on."""

    def wake(_: int, __: FrameType | None) -> None:
        if not database.is_held():
            # It may have been stopped inside of the log.
            os.write(2, _WOKEN)
            os._exit(REPLACED)

    before = signal.signal(signal.SIGCONT, wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)
