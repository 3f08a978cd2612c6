"""Stopping the job of this process, as Ctrl-Z does in other programs."""

import os
import signal
import threading
from types import FrameType

# A process group without a shell that could continue it ignores the signal.
_STOP_TIMEOUT_S = 0.5


def stop_job() -> None:
    """Stop all processes of the job, and return after the shell has continued them.

    Call it in the main thread.
    """
    continued = threading.Event()

    def note(_signal: int, _frame: FrameType | None) -> None:
        continued.set()

    before = signal.signal(signal.SIGCONT, note)
    try:
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # Another thread may receive the signal first.
        continued.wait(_STOP_TIMEOUT_S)
    finally:
        signal.signal(signal.SIGCONT, before)
