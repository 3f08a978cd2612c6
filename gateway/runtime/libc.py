"""Functions of the C library, without `ctypes`: the whole takes twice the memory of its core."""

from collections.abc import Callable


def function(name: str) -> Callable[..., int] | None:
    """A function of integers that returns one, called with the interpreter's lock released; None
    where this system's C library has none of that name."""
    try:
        from _ctypes import call_function, dlopen, dlsym
    except ImportError:
        return None
    try:
        # None is the program itself, as in ctypes.CDLL(None); the stubs do not know.
        address = dlsym(dlopen(None, 0), name)  # type: ignore[arg-type]
    except OSError:
        return None
    return lambda *numbers: int(call_function(address, numbers))
