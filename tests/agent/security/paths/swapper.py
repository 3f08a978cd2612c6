"""Swap two names as fast as the kernel can.

    python -m tests.agent.security.paths.swapper ONE OTHER COUNT

The program writes "ready" first. It swaps at least COUNT times and until its input ends, then
prints the number of swaps.
"""

import ctypes
import os
import select
import sys

_RENAME_EXCHANGE = 2
_AT_ONCE = 64


def main() -> None:
    result, other = (os.fsencode(name) for name in sys.argv[1:3])
    wanted = int(sys.argv[3])
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    cwd = -100
    print("ready", flush=True)
    count = 0
    while count < wanted or not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(_AT_ONCE):
            if rename(cwd, result, cwd, other, _RENAME_EXCHANGE):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        count += _AT_ONCE
    print(count)


if __name__ == "__main__":
    main()
