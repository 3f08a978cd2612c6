"""Port for the sources of file changes, and their limits."""

from pathlib import Path
from typing import Protocol

from agent.code.watch.changes import ChangeSet
from agent.errors import KoreError
from agent.records import frozen


@frozen
class WatchLimits:
    """Limits of watches.

    `folders` is the number of watched folders per root, starting from the top. A network file
    system is scanned every `poll_s`, and a missing root is looked for every `return_s`. A root
    without subscribers stays watched for `linger_s`, because the next turn often starts soon.
    """

    folders: int = 20_000
    roots: int = 16
    poll_s: float = 10
    poll_folders: int = 2_000
    poll_files: int = 50_000
    linger_s: float = 60
    return_s: float = 2


class WatchUnavailable(KoreError):
    """Error: the system cannot watch this root; the message is a sentence for the log."""


class RootGone(KoreError):
    """Error: the watched folder does not exist, or no longer exists."""


class WatchSource(Protocol):
    """Source of file changes, used by one thread, except for `wake`.

    `open` begins to watch: later changes are detected. `wait` returns when there is something to
    read, after `wake`, or after the timeout. `read` adds the changes to a set. All three raise
    `RootGone`, `open` also `WatchUnavailable`.
    """

    @property
    def folders(self) -> int: ...
    def open(self) -> None: ...
    def wait(self, timeout_s: float | None) -> None: ...
    def read(self, into: ChangeSet) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...


def existing_folder(root: Path) -> None:
    """Raise `RootGone` unless the folder exists."""
    try:
        if root.is_dir():
            return
    except OSError:
        pass
    raise RootGone(f"{root} is not there")
