"""The system's time as the killed gateways see it: the loop sets it ahead and back.

A file holds by how much it is off; a process that has it mapped sees each change at once.
"""

import mmap
import struct
import time
from pathlib import Path

VARIABLE = "KORE_CRASH_CLOCK"
_OFF_BY = struct.Struct("d")


def set_offset(file: Path, seconds: float) -> None:
    """From now on the time is off by so many seconds."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(_OFF_BY.pack(seconds))


def obey(file: Path) -> None:
    """Let this process see the time that the file says."""
    with file.open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), _OFF_BY.size, access=mmap.ACCESS_READ)
    real = time.time

    def shifted() -> float:
        return real() + float(_OFF_BY.unpack(shared[:])[0])

    time.time = shifted
