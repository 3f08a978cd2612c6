"""Keeps other processes of the same user from reading this one's memory and environment."""

import sys

from gateway.runtime.libc import function

_SET_DUMPABLE = 4  # prctl(2), PR_SET_DUMPABLE


def disable_core_dumps() -> bool:
    """Make the process undumpable; True when the kernel has done so.

    `/proc/PID/environ` and `/proc/PID/mem` are then root's alone, no debugger attaches, and there
    are no core dumps. A program that is started can be looked into again: it has what it was given.
    """
    if sys.platform != "linux":
        return False
    prctl = function("prctl")
    return prctl is not None and prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
