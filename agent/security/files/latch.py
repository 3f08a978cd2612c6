"""One at a time at each file: who reads it, changes that and writes it back loses nobody's words.

Conversations and sub-agents work side by side in threads of one process. A lock in the process and
not on the file: a command that held one of those would hold Kore up for as long as it likes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from agent.security.files.filenames import folded_path


class _Latch:
    """Kept for as long as somebody holds it or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = Lock()


# There is one disk, so there is one table, whichever agent asks.
_latches: WeakValueDictionary[Path, _Latch] = WeakValueDictionary()
_table = Lock()


@contextmanager
def exclusive_file(path: Path) -> Iterator[None]:
    """Around reading and writing a file, in a thread. A thread holds one file at a time."""
    # Some file systems know one file by several spellings.
    key = folded_path(path)
    with _table:
        latch = _latches.setdefault(key, _Latch())
    with latch.lock:
        yield
