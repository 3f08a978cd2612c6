"""What a watch is made of: a source of changes, of which there are three kinds."""

from pathlib import Path
from typing import Protocol

from agent.code.watch.changes import ChangeSet
from agent.errors import KoreError
from agent.records import frozen


@frozen
class WatchLimits:
    """How many folders of a root are watched, the top ones first, and how many roots at a time. A
    disk of another computer is looked at every `poll_s`. A root that nobody follows any more is
    watched for another `linger_s`: the next turn often comes soon."""

    folders: int = 20_000
    roots: int = 16
    poll_s: float = 10
    poll_folders: int = 2_000
    poll_files: int = 50_000
    linger_s: float = 60


class WatchUnavailable(KoreError):
    """The system lets this root not be watched; the message is a sentence for the log."""


class RootGone(KoreError):
    """The folder that is watched is not there, or no longer."""


class WatchSource(Protocol):
    """Used by one thread, except for `wake`.

    `open` begins to watch; what changes from its return on is found. `wait` returns when there is
    something to read, when it was woken, or after the timeout. `read` adds what has changed. All
    three raise `RootGone`, `open` also `WatchUnavailable`.
    """

    @property
    def folders(self) -> int: ...
    def open(self) -> None: ...
    def wait(self, timeout_s: float | None) -> None: ...
    def read(self, into: ChangeSet) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...


def existing_folder(root: Path) -> None:
    """Raises `RootGone` where there is none."""
    try:
        if root.is_dir():
            return
    except OSError:
        pass
    raise RootGone(f"{root} is not there")
