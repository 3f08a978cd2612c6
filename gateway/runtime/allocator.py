"""How the C library keeps memory, in a program that runs for weeks.

glibc opens up to eight arenas for each core. What a thread has freed in one of them is of no use to
another, and most of it never goes back to the system: memory grows though no object does. C
libraries that have no such functions, such as musl and that of macOS, are left as they are.
"""

import asyncio

from gateway.runtime.libc import function

TRIM_EVERY_S = 300.0
# mallopt(3). A threshold that is named stays; else glibc raises it with what it has seen freed.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OPTIONS = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, 64 * 1024), (_TRIM_THRESHOLD, 128 * 1024))


def keep_one_arena() -> None:
    """And give back at once what is large or at the end of it. To be called before there is a
    second thread."""
    if mallopt := function("mallopt"):
        for option, value in _OPTIONS:
            mallopt(option, value)


async def trim_regularly(every_s: float = TRIM_EVERY_S) -> None:
    """Give back the free pages between those in use, until cancelled."""
    trim = function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(every_s)
        # Mostly under a millisecond, at worst some; nothing waits for it.
        await asyncio.to_thread(trim, 0)
