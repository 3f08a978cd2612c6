"""Protection of the process's memory and environment from the same user's other processes."""

import sys

from gateway.runtime.libc import function

_SET_DUMPABLE = 4  # prctl(2), PR_SET_DUMPABLE


def disable_core_dumps() -> bool:
    """Make the process undumpable; return whether the kernel has done so.

    Only root can then read `/proc/PID/environ` and `/proc/PID/mem`, no debugger attaches, and no
    core is dumped. A program that it starts is dumpable again.
    """
    if sys.platform != "linux":
        return False
    prctl = function("prctl")
    return prctl is not None and prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
