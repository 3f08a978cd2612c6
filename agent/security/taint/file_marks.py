"""Files in the owner's own folders that were written while untrusted text was around.

A mark is an extended attribute, so it stays with a file that is moved. The folders around a marked
file are marked too, because which files a command has read is unknown.

Links, FIFOs and other users' files take no such attribute: their folder says since when they may
have changed. Where a file should take a mark and does not, the workspace says so for all that is in
it; where that fails too, this process remembers it until it ends.
"""

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from agent.records import frozen
from agent.security.taint.attributes import (
    list_attributes,
    read_attribute,
    remove_attribute,
    write_attribute,
)

MarkLevel = Literal["none", "seen", "unseen"]

log = logging.getLogger(__name__)

_NAME = "user.kore.untrusted"
# What a command changes could not be shown to a person beforehand.
_KNOWN, _UNSEEN = b"1", b"2"
# Unix times: since when files of a folder may have changed for good, while commands run that may
# know untrusted text, and while any run. The last counts only once the folder is marked.
SINCE, RUNNING, STARTED = "user.kore.since", "user.kore.running", "user.kore.started"
# Since when entries of a folder may have changed that take no mark themselves.
_UNMARKABLE = "user.kore.unmarkable"
# Each process has an attribute of its own; past this number a command's time counts for good.
_PROCESSES = 16
# As many as the kernel follows.
_MOST_LINKS = 40


def attributes_of_processes(attribute: str) -> tuple[str, ...]:
    return (attribute, *(f"{attribute}.{number}" for number in range(1, _PROCESSES)))


_TIMES = (SINCE, *attributes_of_processes(RUNNING), *attributes_of_processes(STARTED))
_ALL = (_NAME, _UNMARKABLE, *_TIMES)

# What attributes of folders should say that could not be set, by folder and attribute.
_unstored: dict[tuple[str, str], float] = {}
_without_attributes: set[Path] = set()


def mark_tainted(path: Path, workspace: Path, *, unseen: bool = False) -> None:
    """Mark `path`, in `workspace`, and the folders around both, which are marked first."""
    mark_folders_around(path, workspace)
    is_marked_already = path == workspace and not unseen
    if not is_marked_already and not mark_entry(path, unseen=unseen):
        note_unmarked(path, workspace)


def mark_folders_around(path: Path, workspace: Path) -> None:
    real = Path(os.path.realpath(workspace))
    for folder in dict.fromkeys((*path.parents, real, *real.parents)):
        # A workspace may belong to another user; what is above it then is not ours to mark.
        is_inside = folder == real or real in folder.parents
        if (is_inside or _is_ours(folder)) and not _is_folder_marked(folder):
            try:
                write_attribute(folder, _NAME, _KNOWN)
            except OSError as exc:
                _remember(folder, _NAME, 0.0, exc)


def mark_entry(path: Path, *, unseen: bool = False) -> bool:
    """Mark one entry alone; return False where neither it nor its folder can say so."""
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
    """Have all count as untrusted that has changed in the workspace since `path` has."""
    try:
        changed_s = os.lstat(path).st_ctime
    except FileNotFoundError:
        return
    note_earliest(workspace, SINCE, changed_s)


def note_earliest(folder: Path, attribute: str, since: float) -> None:
    """Have the folder say that entries may have changed `since` then, or before as it said."""
    before = _time_of(folder, attribute)
    if before is not None and before <= since:
        return
    try:
        write_attribute(folder, attribute, repr(since).encode())
    except OSError as exc:
        _remember(folder, attribute, since, exc)


def _mark_on_folder(path: Path) -> bool:
    """Have the folder say since when this link, FIFO or other user's file has changed."""
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
    """Keep what an attribute of the folder should say. A file system without attributes has no
    marks at all."""
    if reason.errno == errno.ENOTSUP:
        if folder not in _without_attributes:
            _without_attributes.add(folder)
            log.warning("the file system of %s has no extended attributes: no marks", folder)
        return
    _unstored[os.path.abspath(folder), attribute] = value
    log.warning("%s cannot be marked until Kore ends: %s", folder, reason.strerror)


@frozen
class _FolderMarks:
    """The times that count for all that is in a folder, and for its entries that take no mark."""

    since: Sequence[float] = ()
    unmarkable_since: float | None = None


_NO_MARKS = _FolderMarks()

# What folders say, for a look at several files in a row.
FolderTimes = dict[str, _FolderMarks]


@frozen
class OpenFileMark:
    """The mark of a file, and what else tells of its last change, while it was open."""

    info: os.stat_result
    mark: bytes | None

    @classmethod
    def of(cls, descriptor: int) -> "OpenFileMark":
        return cls(os.fstat(descriptor), read_attribute(descriptor, _NAME))


def mark_level(
    path: Path, times: FolderTimes | None = None, *, opened: OpenFileMark | None = None
) -> MarkLevel:
    """Return `seen` when the file, or any file of the folder, may hold untrusted text; `unseen`
    when a command may have written it there: no tool could ask a person before.

    Every link on the way counts, and what it leads to. `times` remembers the folders around the
    path until the next file. `opened` is what was read at `path`, whatever is there by now.
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
        # Nothing is read through a link that leads to nothing, or in a circle. EINVAL is a link
        # that became something else meanwhile.
        if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            levels.add("unseen")
    return next(one for one in ("unseen", "seen", "none") if one in levels)


def is_marked(path: Path) -> bool:
    return mark_level(path) != "none"


def is_unseen(path: Path) -> bool:
    return mark_level(path) == "unseen"


def is_name_marked(path: Path, times: FolderTimes | None = None) -> bool:
    """Return whether untrusted text may have chosen the name, or the target of a link."""
    try:
        info = os.lstat(path)
    except OSError:
        # It was there when it was listed.
        return True
    mark = OpenFileMark(info, read_attribute(path, _NAME))
    level = opened_level(os.path.abspath(path), mark, {} if times is None else times)
    # A folder is also marked for what is in it.
    return level == "unseen" if stat.S_ISDIR(info.st_mode) else level != "none"


class ShownPaths:
    """Paths below a folder that a tool shows, and whether untrusted text is in one of them: in the
    file, in its name, or in the name of a folder on the way."""

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
    """Remove all marks from the folder and what is in it. Return how many there were."""
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
            # What cannot be looked at keeps its marks.
            continue
    return count


def _unmark_entry(path: Path) -> int:
    unstored = [_unstored.pop((os.path.abspath(path), name), None) for name in _ALL]
    return sum(remove_attribute(path, name) for name in _ALL) + len(unstored) - unstored.count(None)


def opened_level(path: str, opened: OpenFileMark, times: FolderTimes) -> MarkLevel:
    """Return the level of what was found at an absolute path, without following links."""
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
            # Where the clock was set back behind the beginning, nothing tells what is new.
            if changed_s >= moment or time.time() < moment:
                level = "unseen"
        if (parent := os.path.dirname(folder)) == folder:
            return level
        folder = parent


def _takes_marks(info: os.stat_result) -> bool:
    """Whether this user can set attributes of such an entry."""
    user = os.geteuid()
    is_plain = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
    return is_plain and user in (0, info.st_uid)


def _places_of_links(path: Path) -> Iterator[Path]:
    """Every link on the way to the file, and the file at the end."""
    pending = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        parts = Path(pending).parts
        ways = (Path(*parts[: n + 1]) for n in range(len(parts)))
        link = next((way for way in ways if way.is_symlink()), None)
        if link is None:
            yield Path(pending)
            return
        yield link
        target = os.path.join(os.path.realpath(link.parent), os.readlink(link))
        pending = os.path.join(target, *parts[len(link.parts) :])


def _folder_marks(folder: str) -> _FolderMarks:
    names = list_attributes(folder)
    # A command may have added more than can be listed; each is still there when asked for.
    names = _ALL if names is None else names
    if not names and not _unstored:
        # Nearly every folder: each turn asks for several.
        return _NO_MARKS
    times = (counting_since(folder, name) for name in _TIMES if name in names)
    since = [moment for moment in times if moment is not None]
    since += [_unstored[folder, name] for name in _TIMES if (folder, name) in _unstored]
    return _FolderMarks(since, _time_of(folder, _UNMARKABLE) if _UNMARKABLE in names else None)


def counting_since(folder: str | Path, name: str) -> float | None:
    """Return the time of such an attribute; None where there is none, or it counts for nothing."""
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
