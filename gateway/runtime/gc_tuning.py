"""Garbage collection during start and exit.

Imports create permanent objects. The collector would traverse them 130 times, which takes a sixth
of the CPU time that `kore agent -m hi` needs to be ready.
"""

import gc

_USUAL = gc.get_threshold()
# More than `kore agent -m hi` allocates. Objects without cycles are freed at once, as always.
_SHORT = (250_000, 10, 10)
# Reached in the middle of the imports of a gateway.
_SERVING = (100_000, 10, 10)


def defer_gc() -> None:
    """Postpone garbage collection; short programs end before it matters."""
    gc.set_threshold(*_SHORT)


def collect_during_start() -> None:
    """Collect once while a program that runs for weeks is imported.

    `dataclass` replaces classes to give them slots; the old ones take 1.3 MB.
    """
    gc.set_threshold(*_SERVING)


def freeze_after_start() -> None:
    """Exclude loaded objects from all later collections, in a program that runs for weeks."""
    # Older objects survived a collection during the start. Another collection would take three
    # times as long to free five of 1,500 unreachable objects.
    gc.collect(0)
    gc.freeze()
    gc.set_threshold(*_USUAL)


def freeze_for_exit() -> None:
    """Exclude all objects from the collection at exit.

    It took 80 ms after `kore agent -m hi`, although the whole memory is released anyway.
    """
    gc.freeze()
