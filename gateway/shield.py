"""Keeps this process to itself: nobody of the same user reads its memory or its environment."""

import sys

_SET_DUMPABLE = 4  # prctl(2), PR_SET_DUMPABLE


def shield() -> bool:
    """Make the process undumpable; True when the kernel has done so.

    `/proc/PID/environ` and `/proc/PID/mem` are then root's alone, no debugger attaches, and there
    are no core dumps. A program that is started can be looked into again: it has what it was given.
    """
    if sys.platform != "linux":
        return False
    try:
        # Of ctypes the part that is needed; the whole takes twice the memory of it.
        from _ctypes import call_function, dlopen, dlsym
    except ImportError:
        return False
    try:
        # None is the program itself, as in ctypes.CDLL(None); the stubs do not know.
        prctl = dlsym(dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    except OSError:
        return False
    return int(call_function(prctl, (_SET_DUMPABLE, 0, 0, 0, 0))) == 0
