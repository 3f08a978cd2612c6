"""Walk, remove and copy folder trees of any depth, using descriptors.

A command can nest folders deeper than PATH_MAX and Python's recursion limit. Paths are therefore
not used below the root: each folder is opened relative to its parent, never through a link, and
only a few are open at a time. To return to a closed folder, the walk opens `..` and checks that it
is the folder it came from.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from agent.records import frozen
from agent.security.files.safe_open import LISTED, THROUGH, open_folder_beneath, open_subfolder

# Maximum number of open folders on the path to the current folder, inclusive.
_MAX_OPEN = 16
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class TreeEntry:
    """Entry of the open folder `folder`, valid until the next entry is requested.

    `above` lists the names of its parent folders. A folder appears twice: before its entries, and
    after them with `is_done`.
    """

    name: str
    folder: int
    above: Sequence[str]
    info: os.stat_result
    is_done: bool = False

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)

    @property
    def is_file(self) -> bool:
        """True for a regular file; false for a link."""
        return stat.S_ISREG(self.info.st_mode)

    @property
    def path(self) -> str:
        return "/".join((*self.above, self.name))

    def open_file(self) -> int:
        """Return a descriptor for reading.

        Raises OSError, also if the entry is no longer a regular file.
        """
        fd = os.open(self.name, _READ, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "it is not an ordinary file", self.name)
        return fd

    def open_up(self) -> None:
        """Restore our rights to a folder that we own; a command may have removed them."""
        if self.info.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            open_up(self.name, self.folder)


class FolderCursor:
    """Position in a folder tree that needs only a few descriptors at any depth."""

    def __init__(self, root: int) -> None:
        self.names: list[str] = []
        self._root = root
        first = os.open(".", LISTED, dir_fd=root)
        self._open = deque([first])
        self._identities = [_identity(first)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._open:
            os.close(self._open.pop())

    @property
    def folder(self) -> int:
        return self._open[-1]

    def down(self, name: str, *, create: bool = False) -> None:
        """Enter a subfolder. On OSError, the position does not change."""
        fd = open_subfolder(name, self.folder, create=create, flags=LISTED)
        self._enter(name, fd)

    def up(self) -> None:
        """Go to the parent folder, or to the nearest ancestor that was not replaced."""
        inner = self._open.pop()
        self.names.pop()
        self._identities.pop()
        try:
            if not self._open and not self._follow_back(inner):
                self._begin_anew()
        finally:
            os.close(inner)

    def back(self, depth: int) -> None:
        """Go up to the folder at this depth below the root. Raises OSError if it was moved away."""
        while len(self.names) > depth:
            self.up()
        if len(self.names) < depth:
            raise OSError(errno.ESTALE, "a folder was moved away meanwhile")

    def go(self, parts: Sequence[str]) -> None:
        """Go to this folder below the root and create missing folders. Raises OSError."""
        same = 0
        for here, there in zip(self.names, parts, strict=False):
            if here != there:
                break
            same += 1
        self.back(same)
        for part in parts[same:]:
            self.down(part, create=True)

    def _enter(self, name: str, fd: int) -> None:
        self.names.append(name)
        self._open.append(fd)
        self._identities.append(_identity(fd))
        if len(self._open) > _MAX_OPEN:
            os.close(self._open.popleft())

    def _follow_back(self, inner: int) -> bool:
        try:
            fd = os.open("..", LISTED, dir_fd=inner)
        except OSError:
            return False
        if _identity(fd) != self._identities[-1]:
            os.close(fd)
            return False
        self._open.append(fd)
        return True

    def _begin_anew(self) -> None:
        """Start again at the root and descend as long as the folders are unchanged."""
        names, identities = self.names, self._identities
        self.names, self._identities = [], identities[:1]
        self._open.append(os.open(".", LISTED, dir_fd=self._root))
        for name, identity in zip(names, identities[1:], strict=True):
            try:
                fd = open_subfolder(name, self.folder, flags=LISTED)
            except OSError:
                return
            if _identity(fd) != identity:
                os.close(fd)
                return
            self._enter(name, fd)


class TreeWalk:
    """Iterator over everything below the open folder `root`, ordered by name.

    Folders that `enters` rejects are listed without their contents. `left_out` counts entries that
    could not be read, because access was denied or they were moved away.
    """

    def __init__(self, root: int, enters: Callable[[TreeEntry], bool] | None = None) -> None:
        self.left_out = 0
        self._root = root
        self._enters = enters

    def __iter__(self) -> Iterator[TreeEntry]:
        with FolderCursor(self._root) as cursor:
            pending = [self._names(cursor)]
            entered: list[TreeEntry] = []
            while True:
                if pending[-1]:
                    member = self._member(pending[-1].pop(), cursor)
                    if member is None:
                        continue
                    yield member
                    if not member.is_folder:
                        continue
                    if self._descend(member, cursor):
                        pending.append(self._names(cursor))
                        entered.append(member)
                        continue
                elif entered:
                    pending.pop()
                    member = entered.pop()
                    cursor.up()
                    if lost_levels := len(entered) - len(cursor.names):
                        self.left_out += lost_levels + sum(map(len, pending[-lost_levels:]))
                        del pending[-lost_levels:], entered[-lost_levels:]
                        continue
                else:
                    return
                yield TreeEntry(member.name, cursor.folder, cursor.names, member.info, True)

    def _names(self, cursor: FolderCursor) -> list[str]:
        """Return the names in reverse order, so that `pop` returns the first."""
        try:
            return sorted(os.listdir(cursor.folder), reverse=True)
        except OSError:
            self.left_out += 1
            return []

    def _member(self, name: str, cursor: FolderCursor) -> TreeEntry | None:
        try:
            info = os.stat(name, dir_fd=cursor.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError:
            self.left_out += 1
            return None
        return TreeEntry(name, cursor.folder, cursor.names, info)

    def _descend(self, member: TreeEntry, cursor: FolderCursor) -> bool:
        if self._enters is not None and not self._enters(member):
            return False
        try:
            cursor.down(member.name)
        except FileNotFoundError:
            return False
        except OSError:
            self.left_out += 1
            return False
        return True


def remove_tree(name: str, above: int) -> bool:
    """Remove the folder `name` in the open folder `above`, restoring missing rights.

    Returns whether everything was removed. Follows no link; removes nothing if `name` is not a
    folder.
    """
    open_up(name, above)
    try:
        root = open_subfolder(name, above, flags=LISTED)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        for member in TreeWalk(root):
            # The last `rmdir` fails if anything is left.
            with suppress(OSError):
                if member.is_done:
                    os.rmdir(member.name, dir_fd=member.folder)
                elif member.is_folder:
                    member.open_up()
                else:
                    os.unlink(member.name, dir_fd=member.folder)
    finally:
        os.close(root)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)
        return True
    return False


def remove_folder(path: Path) -> bool:
    """Remove the folder at a path like `remove_tree`."""
    try:
        with open_folder_beneath(path.parent.resolve()) as above:
            return remove_tree(path.name, above)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def copy_tree(source: Path, target: Path) -> int:
    """Copy folders, and files with their modes and times, into the new folder `target`.

    Returns the number of omitted entries: links, special files and entries that cannot be opened.
    Raises OSError if the target cannot be written.
    """
    target.mkdir()
    left_out = 0
    with (
        open_folder_beneath(source.resolve(), flags=LISTED) as root,
        open_folder_beneath(target.resolve(), flags=LISTED) as target_folder,
        FolderCursor(target_folder) as place,
    ):
        walk = TreeWalk(root)
        for member in walk:
            place.back(len(member.above))
            if member.is_folder:
                if not member.is_done:
                    place.down(member.name, create=True)
            elif member.is_file:
                try:
                    fd = member.open_file()
                except OSError:
                    left_out += 1
                else:
                    _copy(fd, member, place.folder)
            else:
                left_out += 1
        return left_out + walk.left_out


@contextmanager
def scratch_folder(prefix: str, above: Path | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can access, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
    try:
        yield folder
    finally:
        remove_folder(folder)


def new_file(name: str, folder: int, mode: int = 0o666) -> int:
    """Return a descriptor for writing the file `name`, created or truncated. Raises OSError."""
    return os.open(name, _WRITTEN, mode, dir_fd=folder)


def _copy(fd: int, member: TreeEntry, folder: int) -> None:
    with open(fd, "rb") as source, open(new_file(member.name, folder, 0o600), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fchmod(target.fileno(), stat.S_IMODE(member.info.st_mode))
        os.utime(target.fileno(), ns=(member.info.st_atime_ns, member.info.st_mtime_ns))


def open_up(name: str, folder: int) -> None:
    """Give the owner all rights to this folder, if we own it."""
    with suppress(OSError):
        fd = os.open(name, THROUGH, dir_fd=folder)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            # The mode of an O_PATH descriptor can only be changed through its name in /proc.
            os.chmod(f"/proc/self/fd/{fd}", mode | stat.S_IRWXU)
        finally:
            os.close(fd)


def open_up_folder(path: Path) -> None:
    """Give the owner all rights to the folder at a real path, like `open_up`."""
    with suppress(OSError), open_folder_beneath(path.parent) as above:
        open_up(path.name, above)


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
