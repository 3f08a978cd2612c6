"""Settings of the C library's allocator for a program that runs for weeks.

glibc opens up to eight arenas for each core. Memory that a thread frees in its arena is unavailable
to other threads, and most of it never returns to the system, so the process grows although its
objects do not. C libraries without these functions, such as musl and macOS's, are left alone.
"""

import asyncio

from gateway.runtime.libc import function

TRIM_INTERVAL_S = 300.0
# mallopt(3). A threshold set here stays; otherwise glibc raises it after large blocks are freed.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OPTIONS = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 64 * 1024), (_TRIM_THRESHOLD, 128 * 1024))


def keep_one_arena() -> None:
    """Use a single arena and return large or trailing free blocks at once.

    Call this before a second thread starts.
    """
    if mallopt := function("mallopt"):
        for option, value in _OPTIONS:
            mallopt(option, value)


async def trim_regularly(every_s: float = TRIM_INTERVAL_S) -> None:
    """Return free pages between used ones to the system, until cancelled."""
    trim = function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(every_s)
        # Mostly under a millisecond, sometimes a few; nothing waits for it.
        await asyncio.to_thread(trim, 0)
