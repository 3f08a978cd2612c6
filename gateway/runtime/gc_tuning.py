"""When Python looks for garbage: not while a program starts.

Imports make objects that stay. The collector would walk through them 130 times, which is a sixth
of the CPU that `kore agent -m hi` takes to be ready.
"""

import gc

_USUAL = gc.get_threshold()
# More than a start allocates. What refers to nothing in circles is freed at once as ever.
_START = (100_000, 10, 10)


def defer_gc() -> None:
    """Let garbage wait. Short programs end before anybody misses it."""
    gc.set_threshold(*_START)


def freeze_after_start() -> None:
    """For one that runs for weeks: what is loaded stays, no collection walks through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)


def freeze_for_exit() -> None:
    """For one that ends: its memory goes as a whole, and no collection runs first,
    which took the interpreter 80 ms after `kore agent -m hi`."""
    gc.freeze()
