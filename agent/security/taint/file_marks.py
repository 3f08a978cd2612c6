"""Taint marks on files in the owner's folders that were written with untrusted text in context.

A mark is an extended attribute, so it moves with the file. The parent folders of a marked file are
marked as well, because it is unknown which files a command has read.

Links, FIFOs and other users' files cannot have such an attribute: their folder records the time
from which they may have changed. If a file cannot take a mark, the workspace records this for all
of its contents; if that fails as well, this process remembers it until it exits.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from agent.records import frozen

_SUPPORTED = hasattr(os, "setxattr")
_CREATE = getattr(os, "XATTR_CREATE", 0)
_OPENED = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
# The file or the attribute does not exist, or the file cannot have attributes.
_ABSENT = frozenset(
    {errno.ENODATA, errno.ENOENT, errno.ENOTDIR, errno.ENOTSUP, errno.ENAMETOOLONG, errno.ELOOP}
)

Place = str | os.PathLike[str] | int
"""A path, or the descriptor of an open file."""


def read_attribute(place: Place, name: str) -> bytes | None:
    """Return the attribute's value; None if it does not exist, empty if it cannot be read."""
    if not _SUPPORTED:
        return None
    try:
        return os.getxattr(place, name, follow_symlinks=isinstance(place, int))
    except OSError as exc:
        if exc.errno in _ABSENT:
            return None
        if exc.errno != errno.EACCES:
            return b""
    # Reading a value requires permission to read the file; listing the names does not.
    names = list_attributes(place)
    return b"" if names is None or name in names else None


def list_attributes(place: Place) -> Sequence[str] | None:
    """Return the names of the attributes; None if there are too many to list."""
    if not _SUPPORTED:
        return ()
    try:
        return os.listxattr(place, follow_symlinks=isinstance(place, int))
    except OSError as exc:
        # Nothing behind an inaccessible folder can be read.
        return () if exc.errno in _ABSENT or exc.errno == errno.EACCES else None


def write_attribute(place: Place, name: str, value: bytes, *, new: bool = False) -> None:
    """Set the attribute. Raises `OSError`; `FileExistsError` if `new` and it already exists."""
    if not _SUPPORTED:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    flags = _CREATE if new else 0
    try:
        os.setxattr(place, name, value, flags, follow_symlinks=isinstance(place, int))
    except PermissionError:
        with _writable(place) as opened:
            os.setxattr(opened, name, value, flags)


def remove_attribute(place: Place, name: str) -> bool:
    """Remove the attribute; return False if it does not exist or cannot be removed."""
    if not _SUPPORTED:
        return False
    try:
        try:
            os.removexattr(place, name, follow_symlinks=isinstance(place, int))
        except PermissionError:
            if read_attribute(place, name) is None:
                return False
            with _writable(place) as opened:
                os.removexattr(opened, name)
    except OSError:
        return False
    return True


@contextmanager
def _writable(place: Place) -> Iterator[str]:
    """Yield a path of the same file while its owner may write to it. Raises `OSError`.

    The owner of a read-only file cannot write its attributes. The mode is restored afterwards.
    """
    descriptor = os.dup(place) if isinstance(place, int) else os.open(place, _OPENED)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise PermissionError(errno.EPERM, "only files and folders have such attributes")
        opened = f"/proc/self/fd/{descriptor}"
        os.chmod(opened, stat.S_IMODE(mode) | stat.S_IWUSR)
        try:
            yield opened
        finally:
            os.chmod(opened, stat.S_IMODE(mode))
    finally:
        os.close(descriptor)


MarkLevel = Literal["none", "seen", "unseen"]

log = logging.getLogger(__name__)

_NAME = "user.kore.untrusted"
# Levels of a mark: `_UNSEEN` is for changes by a command, which no person could review.
_KNOWN, _UNSEEN = b"1", b"2"
# Unix times from which files of a folder may have changed: permanently, while commands run that may
# know untrusted text, and while any command runs. The third counts only once the folder is marked.
SINCE, RUNNING, STARTED = "user.kore.since", "user.kore.running", "user.kore.started"
# Time from which entries of a folder may have changed that cannot be marked themselves.
_UNMARKABLE = "user.kore.unmarkable"
# Each process has its own attribute; beyond this number a command's time counts permanently.
_PROCESSES = 16
# The same limit as in the kernel.
_MAX_LINKS = 40


def attributes_of_processes(attribute: str) -> tuple[str, ...]:
    return (attribute, *(f"{attribute}.{number}" for number in range(1, _PROCESSES)))


_TIMES = (SINCE, *attributes_of_processes(RUNNING), *attributes_of_processes(STARTED))
_ALL = (_NAME, _UNMARKABLE, *_TIMES)

# Values of folder attributes that could not be set, by folder and attribute.
_unstored: dict[tuple[str, str], float] = {}
_without_attributes: set[Path] = set()


def mark_tainted(path: Path, workspace: Path, *, unseen: bool = False) -> None:
    """Mark `path`, which is in `workspace`, after marking the parent folders of both."""
    mark_folders_around(path, workspace)
    is_marked_already = path == workspace and not unseen
    if not is_marked_already and not mark_entry(path, unseen=unseen):
        note_unmarked(path, workspace)


def mark_folders_around(path: Path, workspace: Path) -> None:
    real = Path(os.path.realpath(workspace))
    for folder in dict.fromkeys((*path.parents, real, *real.parents)):
        # A workspace may belong to another user; the folders above it are then not ours to mark.
        is_inside = folder.is_relative_to(real)
        if (is_inside or _is_ours(folder)) and not _is_folder_marked(folder):
            try:
                write_attribute(folder, _NAME, _KNOWN)
            except OSError as exc:
                _remember(folder, _NAME, 0.0, exc)


def mark_entry(path: Path, *, unseen: bool = False) -> bool:
    """Mark a single entry; return False if neither the entry nor its folder can record the mark."""
    try:
        write_attribute(path, _NAME, _UNSEEN if unseen else _KNOWN)
    except FileNotFoundError:
        return True
    except OSError:
        return _mark_on_folder(path)
    return True


def mark_open_file(descriptor: int, *, unseen: bool = False) -> None:
    """Mark a file before it gets its name. Raises `OSError`."""
    write_attribute(descriptor, _NAME, _UNSEEN if unseen else _KNOWN)


def note_unmarked(path: Path, workspace: Path) -> None:
    """Treat everything in the workspace that changed since `path` changed as untrusted."""
    try:
        changed_s = os.lstat(path).st_ctime
    except FileNotFoundError:
        return
    note_earliest(workspace, SINCE, changed_s)


def note_earliest(folder: Path, attribute: str, since: float) -> None:
    """Record on the folder the earliest time from which its entries may have changed."""
    before = _time_of(folder, attribute)
    if before is not None and before <= since:
        return
    try:
        write_attribute(folder, attribute, repr(since).encode())
    except OSError as exc:
        _remember(folder, attribute, since, exc)


def _mark_on_folder(path: Path) -> bool:
    """Record the change time of a link, FIFO or other user's file on its folder."""
    try:
        info = os.lstat(path)
        if _takes_marks(info):
            return False
        before = _time_of(path.parent, _UNMARKABLE)
        if before is None or info.st_ctime < before:
            write_attribute(path.parent, _UNMARKABLE, repr(info.st_ctime).encode())
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remember(folder: Path, attribute: str, value: float, reason: OSError) -> None:
    """Remember the value of a folder attribute that could not be set.

    On a file system without attributes there are no marks, so nothing is remembered.
    """
    if reason.errno == errno.ENOTSUP:
        if folder not in _without_attributes:
            _without_attributes.add(folder)
            log.warning("the file system of %s has no extended attributes: no marks", folder)
        return
    _unstored[os.path.abspath(folder), attribute] = value
    log.warning("%s cannot be marked until Kore ends: %s", folder, reason.strerror)


@frozen
class _FolderMarks:
    """Times that apply to everything in a folder, and to its entries that cannot be marked."""

    since: Sequence[float] = ()
    unmarkable_since: float | None = None


_NO_MARKS = _FolderMarks()

# Cached folder times for checking several files in a row.
FolderTimes = dict[str, _FolderMarks]


@frozen
class OpenFileMark:
    """Mark of a file and its status, including the last change, read while it was open."""

    info: os.stat_result
    mark: bytes | None

    @classmethod
    def of(cls, descriptor: int) -> "OpenFileMark":
        return cls(os.fstat(descriptor), read_attribute(descriptor, _NAME))


def mark_level(
    path: Path, times: FolderTimes | None = None, *, opened: OpenFileMark | None = None
) -> MarkLevel:
    """Return the mark level of a file, or the highest level of the files in a folder.

    `seen`: it may contain such text. `unseen`: a command may have written it there, and no tool
    could ask a person first. Every link in the path counts, as does its target. `times` caches the
    parent folders for the next file. `opened` describes the file that was read at `path`, which may
    have been replaced since.
    """
    times = {} if times is None else times
    try:
        mark = opened or OpenFileMark(os.lstat(path), read_attribute(path, _NAME))
    except OSError:
        return "none"
    level = opened_level(os.path.abspath(path), mark, times)
    levels: set[MarkLevel] = {level}
    try:
        if level == "unseen" or os.path.realpath(path) == os.path.abspath(path):
            return level
        for place in _places_of_links(path):
            mark = OpenFileMark(os.lstat(place), read_attribute(place, _NAME))
            levels.add(opened_level(str(place), mark, times))
    except OSError as exc:
        # Nothing can be read through a dangling or circular link. EINVAL means that the link was
        # replaced in the meantime.
        if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            levels.add("unseen")
    return next(literal for literal in ("unseen", "seen", "none") if literal in levels)


def is_marked(path: Path) -> bool:
    return mark_level(path) != "none"


def is_unseen(path: Path) -> bool:
    return mark_level(path) == "unseen"


def is_name_marked(path: Path, times: FolderTimes | None = None) -> bool:
    """Return whether untrusted text may have chosen the name, or the target of a link."""
    try:
        info = os.lstat(path)
    except OSError:
        # It existed when it was listed.
        return True
    mark = OpenFileMark(info, read_attribute(path, _NAME))
    level = opened_level(os.path.abspath(path), mark, {} if times is None else times)
    # A folder is also marked because of its contents.
    return level == "unseen" if stat.S_ISDIR(info.st_mode) else level != "none"


class ShownPaths:
    """Paths below a folder that a tool shows, with a check for untrusted text.

    The text may be in the file, in its name, or in the name of a folder that contains it.
    """

    def __init__(self, root: Path) -> None:
        self.is_marked = False
        self._root = root
        self._times: FolderTimes = {}
        self._folders: set[Path] = set()

    def add(self, path: Path) -> None:
        if self.is_marked:
            return
        self.is_marked = mark_level(path, self._times) != "none"
        for folder in path.parents:
            if folder in self._folders or not folder.is_relative_to(self._root):
                return
            self._folders.add(folder)
            if folder != self._root:
                self.is_marked |= is_name_marked(folder, self._times)


def unmark(folder: Path) -> int:
    """Remove all marks from the folder and its contents, and return their number."""
    pending = [os.fspath(folder)]
    count = _unmark_entry(folder)
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    count += _unmark_entry(Path(entry.path))
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            # Entries that cannot be read keep their marks.
            continue
    return count


def _unmark_entry(path: Path) -> int:
    unstored = [_unstored.pop((os.path.abspath(path), name), None) for name in _ALL]
    return sum(remove_attribute(path, name) for name in _ALL) + len(unstored) - unstored.count(None)


def opened_level(path: str, opened: OpenFileMark, times: FolderTimes) -> MarkLevel:
    """Return the level of the entry at an absolute path, without following links."""
    if opened.mark is None:
        level: MarkLevel = "seen" if (path, _NAME) in _unstored else "none"
    else:
        level = "seen" if opened.mark == _KNOWN else "unseen"
    changed_s = opened.info.st_ctime
    above = os.path.dirname(path)
    folder = path if stat.S_ISDIR(opened.info.st_mode) else above
    while True:
        if (marks := times.get(folder)) is None:
            marks = times[folder] = _folder_marks(folder)
        since = marks.since
        if marks.unmarkable_since is not None and folder == above:
            since = since if _takes_marks(opened.info) else (*since, marks.unmarkable_since)
        for moment in since:
            # If the clock was set back before the start time, nothing shows which files are new.
            if changed_s >= moment or time.time() < moment:
                level = "unseen"
        if (parent := os.path.dirname(folder)) == folder:
            return level
        folder = parent


def _takes_marks(info: os.stat_result) -> bool:
    """Return whether this user can set attributes of an entry with this status."""
    user = os.geteuid()
    is_plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
    return is_plain and user in (0, info.st_uid)


def _places_of_links(path: Path) -> Iterator[Path]:
    """Yield every link in the path, and the file that they lead to."""
    pending = os.path.abspath(path)
    for _ in range(_MAX_LINKS):
        parts = Path(pending).parts
        prefixes = (Path(*parts[: n + 1]) for n in range(len(parts)))
        link = next((prefix for prefix in prefixes if prefix.is_symlink()), None)
        if link is None:
            yield Path(pending)
            return
        yield link
        target = os.path.join(os.path.realpath(link.parent), os.readlink(link))
        pending = os.path.join(target, *parts[len(link.parts) :])


def _folder_marks(folder: str) -> _FolderMarks:
    names = list_attributes(folder)
    # A command may have added more names than can be listed; each can still be read by name.
    names = _ALL if names is None else names
    if not names and not _unstored:
        # The usual case; each turn checks several folders.
        return _NO_MARKS
    times = (counting_since(folder, name) for name in _TIMES if name in names)
    since = [moment for moment in times if moment is not None]
    since += [_unstored[folder, name] for name in _TIMES if (folder, name) in _unstored]
    return _FolderMarks(since, _time_of(folder, _UNMARKABLE) if _UNMARKABLE in names else None)


def counting_since(folder: str | Path, name: str) -> float | None:
    """Return the time in this attribute; None if it does not exist or does not count."""
    if name.startswith(STARTED) and not _is_folder_marked(folder):
        return None
    return _time_of(folder, name)


def _time_of(folder: str | Path, name: str) -> float | None:
    value = read_attribute(folder, name)
    if value is None:
        return _unstored.get((os.path.abspath(folder), name))
    try:
        return float(value.split()[0])
    except (ValueError, IndexError):
        return 0.0


def _is_folder_marked(folder: str | Path) -> bool:
    return read_attribute(folder, _NAME) is not None or (str(folder), _NAME) in _unstored


def _is_ours(folder: Path) -> bool:
    try:
        return folder != Path(folder.anchor) and folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False
