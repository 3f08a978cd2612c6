"""Files in the owner's own folders that were written while strangers' words were around.

A mark is an extended attribute, so it stays with a file that is moved. The folders around a marked
file are marked too, because which files a command has read is unknown. Where the file system
knows no such attributes nothing is marked (docs/taint.md says so).

What a command changes is known afterwards only. So its folder says from the start since when files
may have changed; that is taken back once every one of them is marked, and stays when some could
not be looked at, or when Kore was killed meanwhile. One that knows no strangers' words says so,
too: it may be told some later, which marks the folder. The time compared is that of the last change
of anything about a file, which no command can set back.

Several processes may run commands in a folder, each with an attribute of its own out of a few: it
takes one that is not there yet, and only its own it changes or removes.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from agent.security.files.write_clock import WriteClock
from agent.security.sandbox.orphan_processes import is_gone, process_mark
from agent.types import Taint

MarkLevel = Literal["none", "seen", "unseen"]

_NAME = "user.kore.untrusted"
# What a command changes could not be shown to a person beforehand.
_KNOWN, _UNSEEN = b"1", b"2"
# Unix times: since when files may have changed for good, while commands run that may know
# strangers' words, and while any run. The last counts only once the folder is marked.
_SINCE, _RUNNING, _STARTED = "user.kore.since", "user.kore.running", "user.kore.started"
# So many processes can say so of one folder; for any other it counts for good.
_PROCESSES = 16


def _names_of_processes(attribute: str) -> tuple[str, ...]:
    return (attribute, *(f"{attribute}.{number}" for number in range(1, _PROCESSES)))


_OF_PROCESSES = (*_names_of_processes(_RUNNING), *_names_of_processes(_STARTED))
_ALL = (_NAME, _SINCE, *_OF_PROCESSES)
_DEPTH_MOST = 200
_ENTRIES_MOST = 500_000


class _RunningCommands:
    """The commands of this process that may be changing files, by folder, with the attribute that
    says so there."""

    def __init__(self, attribute: str) -> None:
        self._names = _names_of_processes(attribute)
        self._since: dict[Path, list[float]] = {}
        # The attribute that this process has taken, by folder.
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
        """`unmarked_since`: since when files may have changed that are not marked."""
        with self._lock:
            running = self._since[folder]
            running.remove(since)
            if unmarked_since is not None:
                _since(folder, unmarked_since)
            if running:
                self._update(folder, running)
                return
            del self._since[folder]
            if (name := self._own.pop(folder, None)) is not None:
                _remove(folder, name)

    def _take(self, folder: Path, since: float) -> None:
        for name in self._names:
            is_new = _create(folder, name, _encode_time(since))
            if is_new:
                self._own[folder] = name
            if is_new is not False:
                return
            stale_since = _counting_since(folder, name)
            if stale_since is not None and _is_left(folder, name):
                # Of a process that was killed: it stays, so that two that find it remove nothing.
                _since(folder, stale_since)
        _since(folder, since)

    def _update(self, folder: Path, running: Sequence[float]) -> None:
        if (name := self._own.get(folder)) is not None:
            _set(folder, name, _encode_time(min(running)))
        else:
            _since(folder, min(running))


_started, _running = _RunningCommands(_STARTED), _RunningCommands(_RUNNING)


def mark_tainted(path: Path, workspace: Path, *, unseen: bool = False) -> None:
    """`path`, in `workspace`, holds strangers' words from now on."""
    for folder in dict.fromkeys((*path.parents, workspace, *workspace.parents)):
        if not _is_ours(folder):
            continue
        if _mark_of(folder) not in (_KNOWN, _UNSEEN):
            _set(folder, _NAME, _KNOWN)
    _set(path, _NAME, _UNSEEN if unseen else _KNOWN)


class TaintingCommand:
    """A command that may change any file of some folders: `start` before it runs, `begin` once it
    may know strangers' words, `end` when it has ended. All may take a while in a large folder."""

    def __init__(self, *folders: Path) -> None:
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]
        self.since = WriteClock()
        self._started = self._begun_at = 0.0
        self.is_exposed = False

    def start(self) -> None:
        """From here on it counts when a folder is marked meanwhile, also after a `kill -9`."""
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
        """Mark every file that it may have changed since it was started, if it may know strangers'
        words."""
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
                # Where a link lies by now, the folder is not the one that was given.
                if os.path.realpath(folder) == os.fspath(folder):
                    is_complete = mark_changed(folder, self.since.time_s)
            finally:
                unmarked_since = None if is_complete else self.since.time_s
                _running.end(folder, self._begun_at, unmarked_since=unmarked_since)


def mark_changed(workspace: Path, since: float) -> bool:
    """Mark every file and folder of the workspace that was changed since then (Unix time).

    False when some could not be looked at: they are too many, too deep or closed to us.
    """
    is_complete = True
    remaining = _ENTRIES_MOST
    folders = [(os.fspath(workspace), 0)]
    while folders:
        folder, depth = folders.pop()
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
            with suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(info.st_mode)
                if info.st_ctime >= since and not stat.S_ISLNK(info.st_mode):
                    mark_tainted(Path(entry.path), workspace, unseen=True)
                if is_folder and depth < _DEPTH_MOST:
                    folders.append((entry.path, depth + 1))
                elif is_folder:
                    is_complete = False
    return is_complete


# Since when files of a folder may have changed, for a look at several files in a row.
FolderTimes = dict[str, Sequence[float]]


def mark_level(path: Path, times: FolderTimes | None = None) -> MarkLevel:
    """`seen` when the file, or any file of the folder, may hold strangers' words; `unseen` when a
    command may have written them there: no tool could ask a person before. `times` remembers
    the folders around it until the next file."""
    mark = _mark_of(path)
    if mark == _UNSEEN or _is_changed(path, {} if times is None else times):
        return "unseen"
    return "seen" if mark == _KNOWN else "none"


def is_marked(path: Path) -> bool:
    return mark_level(path) != "none"


def is_unseen(path: Path) -> bool:
    return mark_level(path) == "unseen"


def is_name_marked(path: Path, *, is_folder: bool) -> bool:
    """Whether its name may be a stranger's word; a folder is marked for what is in it, too."""
    return is_unseen(path) if is_folder else is_marked(path)


def unmark(folder: Path) -> int:
    """Take the marks off the folder and all that is in it; how many there were."""
    count = 0
    folders = [os.fspath(folder)]
    count += sum(_remove(folder, name) for name in _ALL)
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    path = Path(entry.path)
                    count += sum(_remove(path, name) for name in _ALL)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return count


@contextmanager
def taint_of_file(path: Path, workspace: Path, taint: frozenset[Taint]) -> Iterator[None]:
    """Around a write to `path`: a mark that it has stays, and strangers' words bring one."""
    was_marked, was_unseen = is_marked(path), is_unseen(path)
    new_folders = [folder for folder in path.parents if not folder.exists()]
    yield
    if "untrusted" in taint or was_marked:
        mark_tainted(path, workspace, unseen=was_unseen)
        for folder in new_folders:
            mark_tainted(folder, workspace, unseen=True)


def _is_changed(path: Path, times: FolderTimes) -> bool:
    """Whether the file was changed since commands in a folder around it may have done so."""
    folder = os.path.abspath(path)
    try:
        changed_s = os.lstat(folder).st_ctime
    except OSError:
        return False
    while True:
        if (counting := times.get(folder)) is None:
            counting = times[folder] = _counting(folder, _names(folder))
        for since in counting:
            # Where the clock was set back behind the beginning, nothing tells what is new.
            if changed_s >= since or time.time() < since:
                return True
        if (parent := os.path.dirname(folder)) == folder:
            return False
        folder = parent


def _since(folder: Path, since: float) -> None:
    before = _time_of(folder, _SINCE)
    if before is None or since < before:
        _set(folder, _SINCE, _encode_time(since))


def _counting(folder: str, names: Sequence[str]) -> Sequence[float]:
    """The times that count of a folder with these attributes: since when files may have changed."""
    if not names:
        return ()
    times = (_counting_since(folder, one) for one in (_SINCE, *_OF_PROCESSES) if one in names)
    return [since for since in times if since is not None]


def _counting_since(folder: str | Path, name: str) -> float | None:
    """The time of such an attribute; None where there is none, or it counts for nothing."""
    if name.startswith(_STARTED) and _mark_of(folder) not in (_KNOWN, _UNSEEN):
        return None
    return _time_of(folder, name)


def _names(folder: str) -> Sequence[str]:
    """The attributes that a folder may have: hardly any has one, so one look is enough."""
    try:
        return os.listxattr(folder, follow_symlinks=False)
    except AttributeError:
        return ()
    except OSError as exc:
        # A command may have added more than can be listed; each is still there when asked for.
        return () if exc.errno == errno.ENOTSUP else _ALL


def _encode_time(time_s: float) -> bytes:
    """With the process that says so."""
    return " ".join([f"{time_s:.6f}", *process_mark().values()]).encode()


def _is_left(folder: Path, name: str) -> bool:
    """Whether the process that has taken this attribute is gone, or did not say which it is."""
    _, _, process = (_get(folder, name) or b"").decode("ascii", "replace").partition(" ")
    return not process or is_gone(process)


def _time_of(folder: str | Path, name: str) -> float | None:
    value = _get(folder, name)
    if value is None:
        return None
    try:
        return float(value.split()[0])
    except (ValueError, IndexError):
        return 0.0


def _mark_of(path: str | Path) -> bytes:
    return _get(path, _NAME) or b""


def _get(path: str | Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except (OSError, AttributeError):
        return None


def _create(path: Path, name: str, value: bytes) -> bool | None:
    """False where there is one already; None where the file system takes none."""
    try:
        os.setxattr(path, name, value, os.XATTR_CREATE, follow_symlinks=False)
    except FileExistsError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _set(path: Path, name: str, value: bytes) -> None:
    with suppress(OSError, AttributeError):
        os.setxattr(path, name, value, follow_symlinks=False)


def _remove(path: Path, name: str) -> bool:
    try:
        os.removexattr(path, name, follow_symlinks=False)
    except (OSError, AttributeError):
        return False
    return True


def _is_ours(folder: Path) -> bool:
    try:
        return folder != Path(folder.anchor) and folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False
