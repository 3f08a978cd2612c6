"""Garbage collection during start and exit.

Imports create objects that stay. The collector would walk through them 130 times, a sixth of the
CPU time that `kore agent -m hi` needs to be ready.
"""

import gc

_USUAL = gc.get_threshold()
# More than a start allocates. Objects without cycles are freed at once, as always.
_START = (100_000, 10, 10)


def defer_gc() -> None:
    """Postpone garbage collection; short programs end before it matters."""
    gc.set_threshold(*_START)


def freeze_after_start() -> None:
    """Exclude loaded objects from all later collections, in a program that runs for weeks."""
    # Older objects survived a collection during the start. Another one would free five of 1,500
    # unreachable objects for three times the time.
    gc.collect(0)
    gc.freeze()
    gc.set_threshold(*_USUAL)


def freeze_for_exit() -> None:
    """Exclude all objects from the collection at exit.

    It took 80 ms after `kore agent -m hi`, although the whole memory is released anyway.
    """
    gc.freeze()
