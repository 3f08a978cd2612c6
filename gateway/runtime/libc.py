"""Functions of the C library through `_ctypes`, which needs half the memory of `ctypes`."""

from collections.abc import Callable


def function(name: str) -> Callable[..., int] | None:
    """Return a function of integers that returns an integer, or None if the C library lacks it.

    The interpreter's lock is released during calls.
    """
    try:
        from _ctypes import call_function, dlopen, dlsym
    except ImportError:
        return None
    try:
        # None means the program itself, as in ctypes.CDLL(None), which the stubs do not know.
        address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    except OSError:
        return None
    return lambda *numbers: int(call_function(address, numbers))
