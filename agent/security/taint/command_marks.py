"""Taint marks on the files that a command changes.

The changed files are known only after the command, so at the start its folder records the time from
which files may have changed. The record is removed once each changed file is marked; it stays if
some files could not be checked or Kore was killed. A command without access to untrusted text has a
record, too, because it may receive such text later, which marks the folder. The compared time is a
file's ctime, which no command can set back.

Several processes may run commands in a folder, each with its own attribute from a limited set: a
process takes a free attribute, and changes or removes only its own.
"""

import os
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from agent.security.sandbox.orphan_processes import is_gone, process_mark
from agent.security.taint.file_marks import (
    RUNNING,
    SINCE,
    STARTED,
    attributes_of_processes,
    counting_since,
    mark_entry,
    mark_folders_around,
    note_earliest,
    read_attribute,
    remove_attribute,
    write_attribute,
)

# File systems store times less precisely than the clock shows them.
CLOCK_PRECISION_S = 1


class WriteClock:
    """Start time of a period; files that change later have a later modification time.

    The clock may be set back during the period. `look` therefore compares it with the monotonic
    clock and moves the start time back as needed. Files changed shortly before the start may then
    count as well, but no later change is missed.
    """

    def __init__(self) -> None:
        self._began, self._steady = time.time(), time.monotonic()

    def look(self) -> None:
        self._began = min(self._began, time.time() - (time.monotonic() - self._steady))

    @property
    def time_s(self) -> float:
        """Unix time slightly before the start, as of the last `look`."""
        return self._began - CLOCK_PRECISION_S


_MAX_DEPTH = 200
_MAX_ENTRIES = 500_000


class _RunningCommands:
    """Running commands of this process by folder, with the attributes that record them."""

    def __init__(self, attribute: str) -> None:
        self._names = attributes_of_processes(attribute)
        self._since: dict[Path, list[float]] = {}
        # Attribute that this process has taken, by folder.
        self._own: dict[Path, str] = {}
        self._lock = threading.Lock()

    def begin(self, folder: Path, since: float) -> None:
        with self._lock:
            running = self._since.setdefault(folder, [])
            running.append(since)
            if len(running) == 1:
                self._take(folder, since)
            else:
                self._update(folder, running)

    def end(self, folder: Path, since: float, *, unmarked_since: float | None = None) -> None:
        """Remove a command; files changed from `unmarked_since` on may be unmarked."""
        with self._lock:
            running = self._since[folder]
            running.remove(since)
            if unmarked_since is not None:
                note_earliest(folder, SINCE, unmarked_since)
            if running:
                self._update(folder, running)
                return
            del self._since[folder]
            if (name := self._own.pop(folder, None)) is not None:
                remove_attribute(folder, name)

    def _take(self, folder: Path, since: float) -> None:
        for name in self._names:
            try:
                write_attribute(folder, name, _encode_time(since), new=True)
            except FileExistsError:
                stale_since = counting_since(folder, name)
                if stale_since is not None and _is_left(folder, name):
                    # Left by a killed process. The attribute stays, so that two processes that find
                    # it remove nothing.
                    note_earliest(folder, SINCE, stale_since)
            except OSError:
                # For a command without untrusted text, only a `kill -9` would need this record.
                if name.startswith(RUNNING):
                    note_earliest(folder, SINCE, since)
                return
            else:
                self._own[folder] = name
                return
        note_earliest(folder, SINCE, since)

    def _update(self, folder: Path, running: Sequence[float]) -> None:
        try:
            if (name := self._own.get(folder)) is not None:
                write_attribute(folder, name, _encode_time(min(running)))
                return
        except OSError:
            pass
        note_earliest(folder, SINCE, min(running))


_started, _running = _RunningCommands(STARTED), _RunningCommands(RUNNING)


class TaintingCommand:
    """Command that may change any file of some folders.

    Call `start` before it runs, `begin` once it may have read untrusted text, and `end` when it has
    ended. Each may take a while in a large folder.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]
        self.since = WriteClock()
        self._started = self._begun_at = 0.0
        self.is_exposed = False

    def start(self) -> None:
        """Record the command: a folder marked from now on counts for it, even after a `kill -9`."""
        self._started = self.since.time_s
        for folder in self._folders:
            _started.begin(folder, self._started)

    def begin(self) -> None:
        if not self.is_exposed:
            self.is_exposed = True
            self._begun_at = self.since.time_s
            for folder in self._folders:
                _running.begin(folder, self._begun_at)

    def end(self, *, is_exposed: bool = True) -> None:
        """Mark every file changed since the start if the command may have read untrusted text."""
        try:
            if is_exposed:
                self.begin()
                self._mark()
        finally:
            for folder in self._folders if self._started else ():
                _started.end(folder, self._started)
            self._started = 0.0

    def _mark(self) -> None:
        self.since.look()
        for folder in self._folders:
            is_complete = False
            try:
                # If a link has replaced the folder, it is not the original folder.
                if os.path.realpath(folder) == os.fspath(folder):
                    is_complete = mark_changed(folder, self.since.time_s)
            finally:
                unmarked_since = None if is_complete else self.since.time_s
                _running.end(folder, self._begun_at, unmarked_since=unmarked_since)


def mark_changed(workspace: Path, since: float) -> bool:
    """Mark every file and folder of the workspace that changed since this Unix time.

    Returns False if some could not be checked: there are too many, they are nested too deeply, or
    access was denied.
    """
    is_complete = True
    remaining = _MAX_ENTRIES
    folders = [(os.fspath(workspace), 0)]
    while folders:
        folder, depth = folders.pop()
        is_marked = False
        try:
            with os.scandir(folder) as entries:
                members = list(entries)
        except FileNotFoundError:
            continue
        except OSError:
            is_complete = False
            continue
        for entry in members:
            remaining -= 1
            if remaining < 0:
                return False
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:
                is_complete = False
                continue
            is_folder = stat.S_ISDIR(info.st_mode)
            if info.st_ctime >= since:
                path = Path(entry.path)
                if not is_marked:
                    mark_folders_around(path, workspace)
                    is_marked = True
                is_complete &= mark_entry(path, unseen=True)
            if is_folder and depth < _MAX_DEPTH:
                folders.append((entry.path, depth + 1))
            elif is_folder:
                is_complete = False
    return is_complete


def _encode_time(time_s: float) -> bytes:
    """Return the time and the identity of this process, encoded."""
    return " ".join([f"{time_s:.6f}", *process_mark().values()]).encode()


def _is_left(folder: Path, name: str) -> bool:
    """Return whether the process that took this attribute has ended or is unknown."""
    value = read_attribute(folder, name) or b""
    _, _, process = value.decode("ascii", "replace").partition(" ")
    return not process or is_gone(process)
