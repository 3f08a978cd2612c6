"""Binding of Linux inotify (man 7 inotify).

The binding in watchfiles does not fit: it does not release the interpreter lock while it adds
folders, cannot add a folder later and does not report dropped events (ADR 0107).
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from agent.records import frozen

MODIFY = 0x00000002
MOVED_FROM = 0x00000040
MOVED_TO = 0x00000080
CREATE = 0x00000100
DELETE = 0x00000200
DELETE_SELF = 0x00000400
MOVE_SELF = 0x00000800
UNMOUNT = 0x00002000
OVERFLOW = 0x00004000
IGNORED = 0x00008000
ONLY_FOLDERS = 0x01000000
NO_LINKS = 0x02000000
IS_FOLDER = 0x40000000

_HEAD = struct.Struct("iIII")
_READ_BYTES = 256 * 1024


@frozen
class InotifyEvent:
    """Event: the watch number of the folder, and the entry's name; empty for the folder itself."""

    watch: int
    mask: int
    name: str


class Inotify:
    """Inotify instance. Raises `OSError` if the user has too many of them."""

    def __init__(self) -> None:
        self.fd = _call(_libc().inotify_init1, os.O_CLOEXEC | os.O_NONBLOCK)

    def add(self, folder: str, mask: int) -> int:
        """Add a watch and return its number; a folder that has a watch keeps its number.

        Raises `OSError`, with ENOSPC if the user has no watches left.
        """
        return _call(_libc().inotify_add_watch, self.fd, os.fsencode(folder), mask)

    def remove(self, watch: int) -> None:
        """Remove a watch. Raises `OSError` for a watch that has ended."""
        _call(_libc().inotify_rm_watch, self.fd, watch)

    def read(self) -> Iterator[InotifyEvent]:
        """Yield a part of the pending events in order, without waiting."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, size = _HEAD.unpack_from(data, at)
            at += _HEAD.size + size
            name = data[at - size : at].rstrip(b"\0")
            yield InotifyEvent(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        os.close(self.fd)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: Any, *arguments: object) -> int:
    result = int(function(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
