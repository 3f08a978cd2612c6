"""System time of the killed gateways: the crash loop sets it forward and back.

A file contains the offset; a process that maps the file sees each change at once.
"""

import mmap
import struct
import time
from pathlib import Path

VARIABLE = "KORE_CRASH_CLOCK"
_OFF_BY = struct.Struct("d")


def set_offset(file: Path, seconds: float) -> None:
    """Set the offset of the system time, in seconds."""
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(_OFF_BY.pack(seconds))


def obey(file: Path) -> None:
    """Make this process use the time offset in the file."""
    with file.open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), _OFF_BY.size, access=mmap.ACCESS_READ)
    real = time.time

    def shifted() -> float:
        return real() + float(_OFF_BY.unpack(shared[:])[0])

    time.time = shifted
