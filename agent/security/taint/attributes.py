"""Extended attributes of files, read and written without following links.

Writing an attribute takes write permission, which the owner of a read-only file lacks. Such a file
is made writable briefly through a descriptor, and its mode is restored afterwards.
https://man7.org/linux/man-pages/man7/xattr.7.html
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    # Reading a value takes permission to read the file; listing the names does not.
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
    """Yield a path of the same file while its owner may write to it. Raises `OSError`."""
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
